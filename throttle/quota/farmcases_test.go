package quota

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// The document's case where who is over the limit waits: the fifth is the first one served in the next second.
func TestTheFifthIsFirstInTheNextSecond(t *testing.T) {
	needs.Unwatched(t)
	for _, window := range []WindowKind{Fixed, Sliding} {
		o := policy(window, 4, time.Second)
		o.Policies[0] = delayed(o.Policies[0], 10, 5*time.Second)
		w := newWorld(t, 1, 5, lan, o).start()
		w.Run(5 * time.Millisecond)
		begin := w.Now().Truncate(time.Second)
		var fifth *visit
		for i, n := range w.nodes {
			if fifth = n.ask("x"); fifth.in != (i < 4) {
				t.Fatalf("%s: server %d says %s", window, i, fifth.answer.Verdict)
			}
			w.Run(20 * time.Millisecond)
		}
		w.Run(begin.Add(time.Second + 5*time.Millisecond).Sub(w.Now()))
		if window == Fixed && !fifth.in {
			t.Errorf("%s: the fifth still waits", window)
		}
		w.Run(200 * time.Millisecond)
		late := w.nodes[0].ask("x")
		w.Run(10 * time.Millisecond)
		if !fifth.in || window == Fixed && !late.in {
			t.Errorf("%s: the fifth is in: %t; one that came later: %t", window, fifth.in, late.in)
		}
	}
}

// With a limit of one a second and a line on each of six nodes, one goes on each second, at each node in turn.
func TestSixLinesTakeTurns(t *testing.T) {
	needs.Unwatched(t)
	for _, window := range []WindowKind{Fixed, Sliding, GCRA} {
		t.Run(string(window), func(t *testing.T) {
			o := policy(window, 1, time.Second)
			o.Policies[0] = delayed(o.Policies[0], 100, time.Minute)
			w := newWorld(t, 1, 6, lan, o).start()
			for range 8 {
				for _, n := range w.nodes {
					n.ask("x")
				}
				w.Run(10 * time.Millisecond)
			}
			from := len(w.granted["x"])
			w.Run(30 * time.Second)
			all := w.granted["x"][from:]
			least := 29
			if window == Sliding { // it remembers for a sixteenth too long
				least = 27
			}
			if len(all) < least || len(all) > 31 {
				t.Errorf("%d in 30 s", len(all))
			}
			for i := 1; i < len(all); i++ {
				if apart := all[i].Sub(all[i-1]); apart < 900*time.Millisecond || apart > 2100*time.Millisecond {
					t.Errorf("two are %s apart", apart)
				}
			}
			served := map[string]int{}
			for _, c := range w.ledger["x"] {
				served[c.node.Name]++
			}
			for _, n := range w.nodes {
				if served[n.Name] < 3 {
					t.Errorf("%s starves: %v", n.Name, served)
				}
			}
		})
	}
}

// Places of a node that was killed come free within two seconds, for those who wait elsewhere.
func TestPlacesOfADeadNode(t *testing.T) {
	needs.Unwatched(t)
	w := newWorld(t, 1, 6, lan, one(delayed(Policy{Name: "at-once", Kind: Concurrent, Limit: Count(4)}, 10,
		time.Minute))).start()
	for i := range 4 {
		if v := w.nodes[i%2].ask("x"); !v.in {
			t.Fatalf("%d: %s", i, v.answer.Explain())
		}
		w.Run(10 * time.Millisecond)
	}
	var waits []*visit
	for _, n := range w.nodes[2:] {
		waits = append(waits, n.ask("x"))
		w.Run(10 * time.Millisecond)
	}
	in := func() (n int) {
		for _, v := range waits {
			if v.in {
				n++
			}
		}
		return n
	}
	if w.Run(time.Second); in() != 0 {
		t.Fatalf("%d went on though all places are taken", in())
	}
	w.nodes[0].Kill()
	if w.Run(2 * time.Second); in() != 2 {
		t.Errorf("%d went on, and two places came free", in())
	}
}

// Two nodes that stream together stay within two per cent of ten megabytes a minute.
func TestTwoNodesStream(t *testing.T) {
	needs.Unwatched(t)
	const limit = 10_000_000
	for _, window := range []WindowKind{Fixed, GCRA} {
		p := delayed(Policy{Name: "bytes", Kind: Volume, Window: window, Limit: Bytes(limit),
			Period: weir.Period{Length: time.Minute}}, 10, time.Minute)
		w := newWorld(t, 1, 2, lan, one(p)).start()
		flowed := map[time.Time]int64{}
		for _, n := range w.nodes {
			v := n.ask("x")
			if !v.in {
				t.Fatal(v.answer.Explain())
			}
			var stream func()
			stream = func() {
				granted, again := n.quota.Ask(v.answer.Hold, 16<<10, false, n.FarmTime())
				flowed[w.Now().Truncate(time.Minute)] += granted
				next := 2 * time.Millisecond // 8 MB/s
				if !again.IsZero() {
					next = max(next, again.Sub(n.FarmTime()))
				}
				w.After(next, stream)
			}
			w.After(0, stream)
		}
		w.Run(4 * time.Minute)
		for minute, n := range flowed {
			first := minute.Equal(slices.MinFunc(minutes(flowed), time.Time.Compare))
			if last := w.Now().Sub(minute) < time.Minute; last || window == GCRA && first {
				continue // a burst comes before it
			}
			if n > limit*102/100 || n < limit*98/100 {
				t.Errorf("%s: %d bytes in the minute of %s", window, n, minute.Format("15:04"))
			}
		}
	}
}

// Bytes that flowed are counted at all nodes, also at those that are started anew, with a store and without.
func TestVolumeSurvivesRestarts(t *testing.T) {
	needs.Unwatched(t)
	for _, stores := range []bool{true, false} {
		w := newWorld(t, 1, 3, lan, one(Policy{Name: "bytes", Kind: Volume, Limit: Bytes(1_000_000),
			Period: weir.Period{Length: 2 * time.Hour}}))
		for _, n := range w.nodes {
			if stores {
				n.kept = shelf{}
			}
		}
		w.start()
		want := int64(0)
		serve := func() {
			for i, n := range w.nodes {
				v := n.ask("x")
				n.quota.Flow(v.answer.Hold, int64(1000*(i+1)), n.FarmTime())
				want += int64(1000 * (i + 1))
				v.end(true)
			}
			w.same("x", want)
		}
		for _, n := range w.nodes {
			serve()
			n.save()
			n.Kill()
			w.Run(500 * time.Millisecond)
			n.start()
			w.Run(2 * time.Second)
			serve()
		}
	}
}

func minutes(m map[time.Time]int64) (all []time.Time) {
	for at := range m {
		all = append(all, at)
	}
	return all
}

func TestTwoNodesKeepAGap(t *testing.T) {
	needs.Unwatched(t)
	w := newWorld(t, 1, 2, lan, one(Policy{Name: "gap", Kind: Idle, Gap: weir.Duration(100 * time.Millisecond)})).start()
	for i := range 50 {
		w.nodes[i%2].ask("x")
		w.Run(20 * time.Millisecond)
	}
	all := w.granted["x"]
	for i := 1; i < len(all); i++ {
		if apart := all[i].Sub(all[i-1]); apart < 95*time.Millisecond {
			t.Errorf("two are %s apart", apart)
		}
	}
	if len(all) < 8 {
		t.Errorf("%d in a second", len(all))
	}
}

// used returns what each node thinks that an account has used.
func (w *world) used(account string) (all []int64) {
	for _, n := range w.nodes {
		s, _ := n.quota.Account(account, n.FarmTime())
		for _, f := range s.Rules {
			all = append(all, f.Limit-f.Remaining)
		}
	}
	return all
}

// same checks what every node thinks that an account has used.
func (w *world) same(account string, want int64) {
	w.t.Helper()
	w.Run(50 * time.Millisecond)
	if got := w.used(account); len(got) != len(w.nodes) ||
		slices.ContainsFunc(got, func(n int64) bool { return n != want }) {
		w.t.Fatalf("%s has used %d, want %d everywhere", account, got, want)
	}
}

func TestResetAndGiveBackTravel(t *testing.T) {
	needs.Unwatched(t)
	for _, window := range []WindowKind{Fixed, Sliding} {
		w := newWorld(t, 1, 3, lan, policy(window, 100, time.Hour)).start()
		var visits []*visit
		for i := range 9 {
			visits = append(visits, w.nodes[i%3].ask("x"))
		}
		w.same("x", 9)
		visits[0].end(false)
		visits[4].end(false)
		w.same("x", 7)
		w.nodes[1].quota.Reset("x", w.nodes[1].FarmTime())
		w.same("x", 0)
		for _, n := range w.nodes {
			n.ask("x")
		}
		w.same("x", 3)
	}
}

func TestOverridesAndPlansAreShared(t *testing.T) {
	needs.Unwatched(t)
	o := policy(Fixed, 2, time.Hour)
	o.Plans = map[string]map[string]Override{"gold": {"p": {Limit: Count(6)}}}
	o.Members = map[string]string{"g": "gold"}
	o.Overrides = map[string]map[string]Override{"o": {"p": {Limit: Count(4)}}}
	w := newWorld(t, 1, 3, lan, o).start()
	for account, limit := range map[string]int{"x": 2, "g": 6, "o": 4} {
		n := 0
		for i := range 12 {
			if w.nodes[i%3].ask(account).in {
				n++
			}
			w.Run(5 * time.Millisecond)
		}
		if n != limit {
			t.Errorf("%s was granted %d of %d", account, n, limit)
		}
	}
}

// An account that is named by its source is one account everywhere, by the prefix that the options say.
func TestSourcesAreShared(t *testing.T) {
	needs.Unwatched(t)
	o := policy(Fixed, 3, time.Hour)
	o.SourceV4, o.SourceV6 = 24, 56
	w := newWorld(t, 1, 3, lan, o).start()
	for _, sources := range [][]string{{"192.0.2.1", "192.0.2.2", "192.0.2.3"},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"}} {
		n := 0
		for i := range 9 {
			node := w.nodes[i%3]
			var a weir.Answer
			ev := &weir.Event{Time: node.FarmTime(), Source: netip.MustParseAddr(sources[i%3])}
			if err := node.quota.Judge(t.Context(), ev, &a); err != nil {
				t.Fatal(err)
			}
			if a.Verdict == weir.Admit {
				n++
			}
			w.Run(5 * time.Millisecond)
		}
		if n != 3 {
			t.Errorf("%v: %d were granted of 3", sources, n)
		}
	}
}

// Those without an entry get a part of the limit on each node, as nobody tells of them.
func TestStrangersGetAPart(t *testing.T) {
	needs.Unwatched(t)
	o := policy(Fixed, 12, time.Hour)
	o.MaxAccounts = 1
	w := newWorld(t, 1, 3, lan, o).start()
	for _, n := range w.nodes {
		n.quota.table.strange.Store(0)
		if v := n.ask("first"); !v.in {
			t.Fatal(v.answer.Explain())
		}
		w.Run(10 * time.Millisecond)
	}
	sum := 0
	for _, n := range w.nodes {
		for range 20 {
			if n.ask("second").in {
				sum++
			}
		}
		w.Run(10 * time.Millisecond)
	}
	if sum != 12 {
		t.Errorf("strangers were granted %d of 12", sum)
	}
}

// A monthly counter survives restarting each node in turn, and all at once, exactly.
func TestMonthlySurvivesRestarts(t *testing.T) {
	needs.Unwatched(t)
	for _, stores := range []bool{true, false} {
		w := newWorld(t, 1, 3, lan, one(monthly(1000)))
		for _, n := range w.nodes {
			if stores {
				n.kept = shelf{}
			}
		}
		w.start()
		want := int64(0)
		serve := func() {
			for i := range 20 {
				if w.nodes[i%3].ask("x").in {
					want++
				}
				w.Run(3 * time.Millisecond)
			}
			w.same("x", want)
		}
		for _, n := range w.nodes {
			serve()
			n.save()
			n.start()
			w.Run(2 * time.Second)
			w.same("x", want)
		}
		if serve(); !stores {
			continue
		}
		for _, n := range w.nodes {
			n.save()
		}
		for _, n := range w.nodes {
			n.start()
		}
		w.Run(2 * time.Second)
		w.same("x", want)
		serve()
	}
}

// After a second of a partition each side grants its part of what is left; after healing all agree within two seconds.
func TestSidesOfAPartition(t *testing.T) {
	needs.Unwatched(t)
	o := policy(Fixed, 60, time.Second)
	o.Policies[0].OnLoss = LossShare
	w := newWorld(t, 1, 6, lan, o).start()
	var left, right = w.Nodes()[:2], w.Nodes()[2:]
	w.Cut(left, right)
	w.Run(1500 * time.Millisecond)
	w.Run(w.Now().Truncate(time.Second).Add(1010 * time.Millisecond).Sub(w.Now()))
	from := len(w.ledger["x"])
	w.Every(4*time.Millisecond, func() bool {
		for _, n := range w.nodes {
			n.ask("x")
		}
		return true
	})
	w.Run(900 * time.Millisecond)
	sides := [2]int{}
	for _, c := range w.ledger["x"][from:] {
		if c.node == w.nodes[0] || c.node == w.nodes[1] {
			sides[0]++
		} else {
			sides[1]++
		}
	}
	if sides[0] < 20 || sides[0] > 22 || sides[1] < 40 || sides[1] > 44 {
		t.Errorf("the sides were granted %v of 20 and 40", sides)
	}
}

// Into however many sides a farm falls, and in whatever order, they grant no more than the limit: what a node has used
// above its part, nobody else grants.
func TestSidesOfSeveralCuts(t *testing.T) {
	needs.Unwatched(t)
	o := policy(Fixed, 18, 365*24*time.Hour)
	o.Policies[0].OnLoss = LossShare
	for name, inTurn := range map[string]bool{"at once": false, "one after the other": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 3, lan, o).start()
			w.Run(2 * time.Second)
			each := w.Nodes()
			granted := 0
			use := func(n *node, times int) {
				for range times {
					if v := n.ask("x"); v.answer.Verdict == weir.Admit {
						granted++
					}
				}
				w.Run(50 * time.Millisecond)
			}
			if inTurn {
				w.Cut(each[:2], each[2:])
				w.Run(2 * time.Second)
			}
			use(w.nodes[0], 12)
			w.Cut(each, each)
			w.Run(2 * time.Second)
			for _, n := range w.nodes {
				use(n, 18)
			}
			if granted < 12 || granted > 18 {
				t.Errorf("%d were granted of 18", granted)
			}
		})
	}
}

func TestTellingBounds(t *testing.T) {
	w := newWorld(t, 1, 2, lan, policy(Sliding, 5, time.Hour)).start()
	n := w.nodes[0]
	now := n.FarmTime()
	var sent [][]byte
	m := n.shared.write(now, told)
	m.send = func(msg []byte) error { sent = append(sent, msg); return nil }
	rs := n.quota.rules.Load()
	write := func(account string, cells int) error {
		sent = nil
		a := newAccount(&n.quota.table.shards[0], account, netip.Addr{})
		m.cells = nil
		for i := range cells {
			m.cells = append(m.cells, cell{slice: int64(i), total: 1})
		}
		m.record(a, rs.list[0], nil, 0, 0)
		m.end(true)
		m.flush()
		return w.nodes[1].shared.Hear("a", 1, sent[0], now)
	}
	for _, c := range []struct {
		what    string
		account string
		cells   int
		err     error
	}{
		{"cells", "x", maxCells, nil}, {"cells + 1", "x", maxCells + 1, ErrTelling},
		{"name", strings.Repeat("x", maxName), 1, nil}, {"name + 1", strings.Repeat("x", maxName+1), 1, ErrTelling},
	} {
		if err := write(c.account, c.cells); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	for i := range maxColleagues + 2 {
		err := n.shared.Hear(fmt.Sprint("node ", i), 1, sentBy(n, now), now)
		if full := i >= maxColleagues-1; full != errors.Is(err, ErrColleagues) { // b is one of them
			t.Fatalf("%d: %v", i, err)
		}
	}
	// A name that is too long to be told is counted, here alone.
	n.ask(strings.Repeat("x", maxName+1))
	if w.Run(time.Second); n.shared.Stats().TooLong == 0 {
		t.Error("nothing says that a name is too long")
	}
	for _, part := range []int64{maxParts - 1, maxParts} {
		m := n.shared.write(now, snapshot)
		m.parts = uint64(part)
		m.begin()
		if err := w.nodes[1].shared.Hear("a", 1, m.buf, now); errors.Is(err, ErrTelling) != (part == maxParts) {
			t.Errorf("part %d: %v", part, err)
		}
	}
}

func sentBy(n *node, now time.Time) (msg []byte) {
	n.shared.Snapshot(now, func(m []byte) bool { msg = m; return true })
	return msg
}

// Whatever comes, nothing panics, and what this node itself counted stays counted.
func FuzzHear(f *testing.F) {
	w := newWorld(f, 1, 2, lan, one(
		Policy{Name: "f", Limit: Count(5), Period: weir.Period{Length: time.Hour}},
		Policy{Name: "s", Limit: Count(5), Window: Sliding, Period: weir.Period{Length: time.Hour}},
		Policy{Name: "g", Limit: Count(5), Window: GCRA, Period: weir.Period{Length: time.Hour}},
		Policy{Name: "c", Kind: Concurrent, Limit: Count(5)},
		Policy{Name: "v", Kind: Volume, Limit: Bytes(5000), Period: weir.Period{Length: time.Hour}},
	)).start()
	n := w.nodes[0]
	n.ask("x")
	now := n.FarmTime()
	for _, msg := range [][]byte{sentBy(n, now), {}, {wireVersion, 0}, {wireVersion, 2, 1, 1, 0, 0}} {
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		q, err := New(w.options)
		if err != nil {
			t.Fatal(err)
		}
		s := q.Share("b", 7, func([]byte) error { return nil })
		for range 2 {
			if !q.Allow(now, "x") {
				t.Fatal("refused")
			}
		}
		rs := q.rules.Load()
		for _, from := range []string{"a", "b", "a"} {
			_ = s.Hear(from, 3, msg, now) // it may make no sense
		}
		a := q.table.known(rs, "x")
		defer a.shard.mu.Unlock()
		for _, r := range rs.list[:2] {
			if p := a.state(r).peers(); a.state(r).used+a.state(r).others < 2 && (p == nil || p.reset == 0) {
				t.Errorf("%s: %+v", r.Name, a.state(r))
			}
		}
	})
}

// Nodes know rules by what they count, and not by their names: in a rolling reload a policy may count something else.
func TestRulesOfOneNameThatCountOtherwise(t *testing.T) {
	w := newWorld(t, 1, 3, lan, policy(Fixed, 5, time.Hour))
	w.nodes[2].options = policy(Sliding, 5, time.Hour)
	w.start()
	for _, n := range w.nodes {
		n.ask("x")
	}
	w.Run(50 * time.Millisecond)
	if got := w.used("x"); !slices.Equal(got, []int64{2, 2, 1}) {
		t.Errorf("x has used %d", got)
	}
	// Once it counts the same, it is told.
	n := w.nodes[2]
	if err := n.quota.Configure(w.options, n.FarmTime()); err != nil {
		t.Fatal(err)
	}
	w.same("x", 2) // what the sliding window counted is another figure
}

// Nodes come and go under ever new names, as in places where each has a name of its own. What they used counts until
// its period is over, and no more of them are remembered than there is room for.
func TestNodesComeAndGo(t *testing.T) {
	needs.Unwatched(t)
	const nodes = 2 * maxColleagues
	year := Options{Policies: []Policy{{Name: "p", Limit: Count(nodes + 10), Period: weir.Period{Calendar: weir.Year},
		Over: OverDelay}}}
	here := newRig(t, year)
	shared := here.q.Share("here", 1, func([]byte) error { return nil })
	for i := range nodes {
		other := newRig(t, year)
		name := fmt.Sprint("node ", i)
		var told []byte
		s := other.q.Share(name, 1, func(msg []byte) error { told = msg; return nil })
		other.ask("x")
		s.Advance(other.now)
		shared.Find(name, here.now)
		if err := shared.Hear(name, 1, told, here.now); err != nil {
			t.Fatal(err)
		}
		if got, known := here.q.Account("x", here.now); !known || got.Rules[0].Remaining != int64(nodes+10-i-1) {
			t.Fatalf("after %d nodes: %+v", i+1, got)
		}
		shared.Lose(name, here.now)
	}
	if n := len(shared.colleagues); n > maxColleagues {
		t.Errorf("%d nodes are remembered", n)
	}
	if here.ask("x"); len(here.line) != 0 {
		t.Error("it waits")
	}
}
