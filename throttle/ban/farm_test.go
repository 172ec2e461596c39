package ban

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/store"
)

// A simulation is a farm of three nodes whose messages are lost, repeated and reordered. The clocks differ, and nodes
// are started again with what they have stored.
type simulation struct {
	t     *testing.T
	draw  *rapid.T
	nodes [3]struct {
		*member
		disk   *disk
		keeper *Keeper
		skew   time.Duration
		inbox  [][]byte
	}
	said []store.Ban // by operators, all of it
	now  time.Time
}

func (s *simulation) at(node int) time.Time { return s.now.Add(s.nodes[node].skew) }

func (s *simulation) start(node int) {
	n := &s.nodes[node]
	n.member = newMember(s.t, Options{AddressFrom: 2})
	k, err := n.Keep(context.Background(), n.disk, s.at(node), nil)
	must(s.t, err)
	n.keeper = k
}

func (s *simulation) stop(node int) { must(s.t, s.nodes[node].keeper.Close(context.Background())) }

// send puts what a node has to say into the others' inboxes.
func (s *simulation) send(node int) {
	for _, msg := range s.nodes[node].take(s.t) {
		for other := range s.nodes {
			for range rapid.SampledFrom([]int{0, 1, 1, 2}).Draw(s.draw, "copies") {
				if other != node {
					s.nodes[other].inbox = append(s.nodes[other].inbox, msg)
				}
			}
		}
	}
}

// hear hands one message to a node, any of those that are under way.
func (s *simulation) hear(node int) {
	n := &s.nodes[node]
	if len(n.inbox) > 0 {
		i := rapid.IntRange(0, len(n.inbox)-1).Draw(s.draw, "message")
		n.hears(s.t, s.at(node), n.inbox[i])
		n.inbox = slices.Delete(n.inbox, i, i+1)
	}
}

// order notes what an operator has said, with the time that it got.
func (s *simulation) order(node int, key store.BanKey) {
	n := &s.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.word(key); w != nil {
		s.said = append(s.said, *w)
	}
}

func (s *simulation) step(keys []store.BanKey) {
	s.now = s.now.Add(time.Duration(rapid.IntRange(0, 300).Draw(s.draw, "seconds"))*time.Second + 1)
	node := rapid.IntRange(0, 2).Draw(s.draw, "node")
	n := &s.nodes[node]
	switch rapid.IntRange(0, 11).Draw(s.draw, "step") {
	case 0, 1, 2:
		_ = n.Offend(Offence{Client: rapid.SampledFrom([]string{"", "a", "b"}).Draw(s.draw, "client"),
			Source: netip.MustParseAddr(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2"}).Draw(s.draw, "source"))},
			s.at(node))
	case 3:
		b := store.Ban{BanKey: rapid.SampledFrom(keys).Draw(s.draw, "who"), Operator: true, By: fmt.Sprint(node)}
		if m := rapid.IntRange(0, 30).Draw(s.draw, "minutes"); m > 0 {
			b.Until = s.at(node).Add(time.Duration(m) * time.Minute)
		}
		must(s.t, n.Add(b, s.at(node)))
		s.order(node, b.BanKey)
	case 4:
		who := rapid.SampledFrom(keys).Draw(s.draw, "remove")
		if n.Remove(who, s.at(node)) == nil {
			s.order(node, who)
		}
	case 5, 6:
		s.send(node)
	case 7, 8, 9:
		s.hear(node)
	case 10:
		n.Advance(s.at(node))
	case 11:
		s.stop(node)
		s.start(node)
	}
}

// view is what a node holds: operators' bans and lifts, and who mechanisms have banned.
func (s *simulation) view(node int) (operators, mechanisms string) {
	n := &s.nodes[node]
	var all []store.Ban
	for _, b := range n.All(s.now) {
		if b.Operator {
			all = append(all, b)
		} else {
			mechanisms += " " + b.BanKey.String()
		}
	}
	n.mu.Lock()
	for _, i := range n.lifts.by {
		all = append(all, i.ban)
	}
	n.mu.Unlock()
	slices.SortFunc(all, func(a, b store.Ban) int { return a.Compare(b.BanKey) })
	for _, b := range all {
		operators += fmt.Sprintf("%s %v since %d until %d by %s\n", b.BanKey, b.Lifted, b.Since.UnixNano(), end(b),
			b.By)
	}
	return operators, mechanisms
}

// Whatever is lost, repeated and reordered: after snapshots all nodes hold the same operators' bans and lifts, the last
// word about each, and mechanisms' bans of the same clients and addresses.
func TestNodesAgree(t *testing.T) {
	var disks [3]*disk
	for i := range disks {
		disks[i] = newDisk(t)
	}
	keys := []store.BanKey{key(t, "192.0.2.1"), key(t, "192.0.2.0/24"), key(t, "client:a"), key(t, "client:b")}
	rapid.Check(t, func(rt *rapid.T) {
		s := &simulation{t: t, draw: rt, now: epoch}
		for i := range s.nodes {
			left, err := disks[i].List(context.Background(), time.Unix(0, 0))
			must(t, err)
			for _, b := range left {
				must(t, disks[i].Remove(context.Background(), b.BanKey))
			}
			s.nodes[i].disk = disks[i]
			s.nodes[i].skew = time.Duration(rapid.IntRange(-2000, 2000).Draw(rt, "skew")) * time.Millisecond
			s.start(i)
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			s.step(keys)
		}
		s.now = s.now.Add(5 * time.Second) // nobody is ahead of that
		for range 3 {
			for i := range s.nodes {
				s.nodes[i].Advance(s.now)
			}
			for i := range s.nodes {
				for _, msg := range s.nodes[i].snapshot(s.now) {
					for j := range s.nodes {
						if j != i {
							s.nodes[j].hears(t, s.now, msg)
						}
					}
				}
			}
		}
		operators, mechanisms := s.view(0)
		for i := range s.nodes {
			if o, m := s.view(i); o != operators || m != mechanisms {
				rt.Fatalf("node %d holds\n%s and%s, node 0\n%s and%s", i, o, m, operators, mechanisms)
			}
			s.stop(i)
		}
		last := map[store.BanKey]store.Ban{}
		for _, b := range s.said {
			who := b.BanKey
			who.Lifted = false
			if old, known := last[who]; !known || compareWords(b, old) > 0 {
				last[who] = b
			}
		}
		for who, b := range last {
			got, found := s.nodes[0].Get(who, s.now)
			if holds := !b.Lifted && b.Holds(s.now); holds != (found && got.Operator) || holds && !got.Equal(&b) {
				rt.Fatalf("%s: %+v, but the last word is %+v", who, got, b)
			}
		}
		if strings.Count(operators, "\n") > 2*len(last) {
			rt.Fatalf("words that nobody said:\n%s", operators)
		}
	})
}
