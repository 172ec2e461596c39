package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

// A story is a farm to which a few things happen, one after the other.
type story struct {
	*world
	rand     *rand.Rand
	happened []string
	left     map[*node]bool // it said goodbye and serves on
	away     map[*node]bool // it does not run
	parted   bool           // at some time
	lossy    bool           // a disk was lost
	cutOff   map[*node]bool // none of the others can hear it
	// Who has said goodbye and is not back, each with those that ran then, as far as they have not ended since.
	gone    map[*node]map[*node]bool
	stray   map[*node]bool // it was gone while the others could not hear each other, or had all ended
	started int            // nodes that belong to the farm
	// What was charged by a node whose disk was lost while nobody else had it in memory.
	forgotten map[*charge]bool
}

const (
	storyLimit    = 18 // told of at once
	storyAccounts = 100
)

// storyPolicies are the limits of stories. Periods are longer than these.
var storyPolicies = []Policy{
	{Name: "p", OnLoss: LossShare, Limit: Count(storyLimit), Period: weir.Period{Length: 365 * 24 * time.Hour}},
	{Name: "p", OnLoss: LossShare, Limit: Count(storyLimit), Window: Sliding, Period: weir.Period{Length: 24 * time.Hour}},
	{Name: "p", OnLoss: LossShare, Limit: Count(2), Period: weir.Period{Length: 365 * 24 * time.Hour}},
	{Name: "p", OnLoss: LossShare, Limit: Count(2), Window: Sliding, Period: weir.Period{Length: 24 * time.Hour}},
	{Name: "p", OnLoss: LossClosed, Limit: Count(storyLimit), Period: weir.Period{Length: 365 * 24 * time.Hour}},
	{Name: "p", OnLoss: LossOpen, Limit: Count(storyLimit), Period: weir.Period{Length: 365 * 24 * time.Hour}},
}

// storyEvents are what may happen.
var storyEvents = map[string]func(s *story, n *node){
	"term":        func(s *story, n *node) { s.end(n, true); s.pause(); s.begin(n) },
	"kill":        func(s *story, n *node) { s.end(n, false); s.pause(); s.begin(n) },
	"disk lost":   func(s *story, n *node) { s.loseDisk(n) },
	"stay away":   func(s *story, n *node) { s.end(n, s.rand.IntN(2) == 0) },
	"come back":   func(s *story, _ *node) { s.back() },
	"all term":    func(s *story, _ *node) { s.all(true) },
	"all kill":    func(s *story, _ *node) { s.all(false) },
	"cut":         func(s *story, n *node) { s.cut(n) },
	"cut in two":  func(s *story, n *node) { s.heal(); s.cut(n) },
	"heal":        func(s *story, _ *node) { s.heal() },
	"joiner":      func(s *story, _ *node) { s.begin(s.nodes[s.started-1+min(1, len(s.nodes)-s.started)]) },
	"leave":       func(s *story, n *node) { s.leave(n) },
	"clock moves": func(s *story, n *node) { n.Skew += time.Duration(s.rand.IntN(2001)-1000) * time.Millisecond },
}

// tell makes up a story.
func tell(t tb, seed uint64) *story {
	r := rand.New(rand.NewPCG(seed, 39))
	p := storyPolicies[r.IntN(len(storyPolicies))]
	s := &story{rand: r, left: map[*node]bool{}, away: map[*node]bool{}, started: 3,
		cutOff: map[*node]bool{}, gone: map[*node]map[*node]bool{}, stray: map[*node]bool{},
		forgotten: map[*charge]bool{},
		world: newWorld(t, seed, 4, farmtest.Network{DelayMin: 100 * time.Microsecond, DelayMax: time.Millisecond},
			one(p))}
	listed := r.IntN(2) * 3
	for _, n := range s.nodes {
		n.Options, n.kept = func(j *farm.Joining) { j.Expected = listed }, shelf{}
	}
	for _, n := range s.nodes[:3] {
		n.start()
	}
	s.away[s.nodes[3]] = true
	s.Run(time.Second)
	s.serve()
	for range 2 + r.IntN(4) {
		names := make([]string, 0, len(storyEvents))
		for name := range storyEvents {
			names = append(names, name)
		}
		slices.Sort(names)
		name, n := names[r.IntN(len(names))], s.nodes[r.IntN(3)]
		s.happened = append(s.happened, name+" "+n.Name)
		storyEvents[name](s, n)
		s.Run(1300 * time.Millisecond) // who is lost is noticed
		s.serve()
	}
	return s
}

func (s *story) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s %s, limit %d, after %s: %s", s.options.Policies[0].OnLoss, s.options.Policies[0].Window,
		s.options.Policies[0].Limit.N, strings.Join(s.happened, ", "), fmt.Sprintf(format, args...))
}

// serve has each account ask a few times, at any nodes.
func (s *story) serve() {
	for n := range s.gone {
		s.stray[n] = s.stray[n] || len(s.cutOff) > 0
	}
	for range 6 {
		for i := range storyAccounts {
			if n := s.nodes[s.rand.IntN(len(s.nodes))]; !s.away[n] {
				n.ask(fmt.Sprint(i)).end(true)
			}
		}
		s.Run(5 * time.Millisecond)
	}
}

func (s *story) pause() { s.Run(time.Duration(s.rand.IntN(1500)) * time.Millisecond) }

// end ends a run of one node.
func (s *story) end(n *node, goodbye bool) {
	if s.away[n] {
		return
	}
	s.halt(n, goodbye)
	if !slices.ContainsFunc(s.nodes, func(other *node) bool { return !s.away[other] }) {
		s.parted = true // what those used that were away, nobody else keeps
	}
}

// halt ends a run. What it has counted is on its disk.
func (s *story) halt(n *node, goodbye bool) {
	if s.away[n] {
		return
	}
	n.save()
	if goodbye {
		_ = n.Farm().Leave(context.Background())
		s.goodbye(n)
	}
	n.Kill()
	s.away[n] = true
	for other, witnesses := range s.gone {
		if delete(witnesses, n); len(witnesses) == 0 {
			s.stray[other] = true
		}
	}
}

// goodbye notes that a node has said goodbye.
func (s *story) goodbye(n *node) {
	s.gone[n] = map[*node]bool{}
	for _, other := range s.nodes {
		if other != n && !s.away[other] && !s.left[other] {
			s.gone[n][other] = true
		}
	}
}

func (s *story) begin(n *node) {
	if !s.away[n] {
		return
	}
	if slices.Index(s.nodes, n) >= s.started {
		s.started++
	}
	n.start()
	delete(s.away, n)
	delete(s.left, n)
	delete(s.gone, n)
}

// loseDisk restarts a node without its disk. What it has charged the others know, if they hear it.
func (s *story) loseDisk(n *node) {
	if !slices.ContainsFunc(s.nodes, func(other *node) bool { return other != n && s.knows(other, n) }) {
		for _, ledger := range s.ledger {
			for _, c := range ledger {
				if c.node == n {
					s.forgotten[c] = true
				}
			}
		}
	}
	s.lossy = true
	s.end(n, s.rand.IntN(2) == 0)
	n.kept, n.Kept = shelf{}, nil
	s.begin(n)
}

// knows reports whether a node runs that has heard what another one charged.
func (s *story) knows(n, other *node) bool {
	return !s.away[n] && !s.left[n] &&
		(s.away[other] || !s.left[other] && !s.cutOff[n] && !s.cutOff[other])
}

func (s *story) heal() {
	s.Heal()
	clear(s.cutOff)
}

func (s *story) back() {
	for _, n := range s.nodes[:s.started] {
		s.begin(n)
	}
}

func (s *story) all(goodbye bool) {
	for _, n := range s.nodes[:s.started] { // what one used that is away, nobody else keeps
		s.parted = s.parted || s.away[n]
	}
	for _, n := range s.nodes[:s.started] {
		s.halt(n, goodbye)
		if s.rand.IntN(2) == 0 {
			s.Run(20 * time.Millisecond)
		}
	}
	s.back()
}

func (s *story) cut(n *node) {
	var others []*farmtest.SimNode
	for _, other := range s.nodes {
		if other != n {
			others = append(others, other.SimNode)
		}
	}
	s.Cut([]*farmtest.SimNode{n.SimNode}, others)
	s.parted, s.cutOff[n] = true, true
}

// leave has a node serve on alone.
func (s *story) leave(n *node) {
	if s.away[n] || s.left[n] {
		return
	}
	n.shared.Close()
	_ = n.Farm().Leave(context.Background())
	n.divide()
	s.left[n] = true
	s.goodbye(n)
	s.parted = true // it counts alone
}

// strayed is what nodes used that were gone when the others were parted, or had all ended. Each side, or those that
// began anew, may grant that once more: nobody knows whose part it was, or that it was used. And what is forgotten.
func (s *story) strayed(account string) (n int) {
	for _, c := range s.ledger[account] {
		if s.stray[c.node] || s.forgotten[c] {
			n++
		}
	}
	return n
}

// granted is how much of an account went on in any stretch of the period.
func (s *story) granted(account string) int {
	n := 0
	for _, c := range s.ledger[account] {
		if !c.back {
			n++
		}
	}
	return n
}

// Whatever happens to a farm, one thing after the other, a policy with on_loss: share or closed grants no more than its
// limit, and one with open no more than each node alone would. Two seconds after the last of it all nodes have their
// parts again, and agree on what was used.
func TestFarmStories(t *testing.T) {
	needs.Unwatched(t)
	stories := uint64(200)
	if needs.Long() {
		stories = 10_000
	}
	for seed := range stories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := tell(t, seed)
			s.neverOver()
			s.whole()
			s.serve()
			s.neverOver()
			for i := range storyAccounts {
				s.sameAtAll(fmt.Sprint(i))
			}
		})
	}
}

// neverOver checks what was granted until now.
func (s *story) neverOver() {
	s.t.Helper()
	p := s.options.Policies[0]
	for i := range storyAccounts {
		most := int(p.Limit.N)
		if p.OnLoss == LossOpen && s.parted {
			most *= s.started // each node knows at least what it has granted itself
		}
		most += s.strayed(fmt.Sprint(i))
		if n := s.granted(fmt.Sprint(i)); n > most {
			s.fail("%d were granted of %d", n, most)
		}
	}
}

// whole lets the farm come together again: it has two seconds.
func (s *story) whole() {
	s.t.Helper()
	s.heal()
	for _, n := range s.nodes[:s.started] {
		if s.left[n] {
			s.end(n, false)
		}
	}
	s.back()
	s.Run(2 * time.Second)
	for _, n := range s.nodes[:s.started] {
		if st := n.Farm().Standing(); !st.Whole() || !st.Agreed || st.Of != s.started || !n.Farm().CaughtUp() {
			s.fail("%s stands at %+v", n.Name, st)
		}
	}
}

// sameAtAll checks that all nodes count the same, and nothing twice.
func (s *story) sameAtAll(account string) {
	var used []int64
	for _, n := range s.nodes[:s.started] {
		sum := int64(0)
		for _, v := range n.look(account) {
			sum += v.state.used + v.state.others
		}
		used = append(used, sum)
	}
	if slices.Min(used) != slices.Max(used) {
		s.fail("%s has used %d", account, used)
	}
	if n := int64(s.granted(account)); used[0] > n || used[0] < n && !s.lossy {
		s.fail("%s has used %d of %d that were granted", account, used[0], n)
	}
}
