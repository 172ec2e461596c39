package quota

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// Whatever ordinary things happen one after the other, no window sees more than its limit as long as the disks are
// there, and the limit can be used.
func TestExactAnySequence(t *testing.T) {
	const together = 4
	sequences := 200
	if needs.Long() {
		sequences = 10_000
	}
	seeds := make(chan uint64)
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { playSequence(t, seed) })
				})
			}
		})
	}
	for seed := range sequences {
		seeds <- uint64(seed)
		if t.Failed() && !needs.Long() {
			break
		}
	}
	close(seeds)
	all.Wait()
}

// nodes are how many there are at first.
const nodes = 3

// A sequence is a farm to which things happen.
type sequence struct {
	*lendingFarm
	o          Options
	r          *rand.Rand
	mu         sync.Mutex
	grant      map[string][]time.Time
	story      []string
	saved      func() // promotes an engine that has what there was some time ago
	kills      int
	unanswered map[string]int64
	lossy      bool          // a disk was lost, and with it perhaps what only that node knew
	losses     int           // how often the engine has forgotten something
	last       time.Time     // when the last of what is still to come will have happened
	left       []string      // nodes that are not to come back
	whole      time.Time     // when all can be used
	moved      time.Duration // by how much clocks were moved
}

func (s *sequence) tell(what string, n *lendingNode) {
	if n != nil {
		what += " " + n.name
	}
	s.story = append(s.story, what)
}

// happens are the things that happen. Each takes a node that is up.
var happens = []struct {
	name string
	do   func(s *sequence, n *lendingNode)
}{
	{"restart", func(s *sequence, n *lendingNode) { s.restart(n, false, n.disk) }},
	{"kill and restart", func(s *sequence, n *lendingNode) { s.restart(n, true, n.disk) }},
	{"kill, restart later", func(s *sequence, n *lendingNode) {
		s.end(n, true)
		s.kills++
		s.later(time.Second, func() { s.start(n.name, s.o, n.disk) })
	}},
	{"stop, start later", func(s *sequence, n *lendingNode) {
		s.end(n, false)
		s.later(time.Minute, func() { s.start(n.name, s.o, n.disk) })
	}},
	{"restart all in turn", func(s *sequence, _ *lendingNode) {
		for _, n := range s.all() {
			s.restart(n, false, n.disk)
		}
	}},
	{"kill all", func(s *sequence, _ *lendingNode) {
		for _, n := range s.all() {
			s.restart(n, true, n.disk)
		}
	}},
	{"restart, disk lost", func(s *sequence, n *lendingNode) {
		s.lossy = true
		s.restart(n, s.random(2) == 0, &memDisk{})
	}},
	{"engine empty", func(s *sequence, _ *lendingNode) { s.pot.Restart(); s.losses++ }},
	{"engine stale", func(s *sequence, _ *lendingNode) { s.saved(); s.saved = s.pot.Save(); s.losses++ }},
	{"engine promoted", func(s *sequence, _ *lendingNode) {
		promote := s.pot.Save()
		time.Sleep(time.Duration(s.random(int(50 * time.Millisecond))))
		promote()
		s.losses++
	}},
	{"engine stalls", func(s *sequence, _ *lendingNode) {
		s.stall.Store(true)
		s.later(500*time.Millisecond, func() { s.stall.Store(false) })
	}},
	{"cut from the bus", func(s *sequence, n *lendingNode) { n.noBus.Store(true) }},
	{"cut from the engine", func(s *sequence, n *lendingNode) { n.noPot.Store(true) }},
	{"healed", func(s *sequence, _ *lendingNode) { s.heal() }},
	{"joiner", func(s *sequence, _ *lendingNode) { s.join(fmt.Sprint("j", s.random(1000)), s.o) }},
	{"leave", func(s *sequence, n *lendingNode) {
		if len(s.all()) > 1 && !n.noPot.Load() && !s.stall.Load() {
			s.lossy = true // with it goes what only that node knew
			s.end(n, false)
			s.left = append(s.left, n.name)
		}
	}},
	{"clock moved", func(s *sequence, n *lendingNode) {
		by := time.Duration(s.random(int(6*time.Second))) - 3*time.Second
		n.shift.Add(int64(by))
		s.moved += by.Abs()
	}},
}

func (s *sequence) restart(n *lendingNode, kill bool, disk *memDisk) {
	if kill {
		s.kills++
	}
	cut := n.noBus.Load()
	s.end(n, kill)
	time.Sleep(time.Duration(s.random(int(100 * time.Millisecond))))
	s.start(n.name, s.o, disk).noBus.Store(cut)
}

// later has something happen within a time.
func (s *sequence) later(within time.Duration, f func()) {
	after := time.Duration(s.random(int(within)))
	if at := time.Now().Add(after); at.After(s.last) {
		s.last = at
	}
	time.AfterFunc(after, f)
}

func (s *sequence) heal() {
	for _, n := range s.all() {
		n.noPot.Store(false)
		if n.noBus.Swap(false) {
			go n.meet()
		}
	}
}

func (s *sequence) ask(n *lendingNode, account string) weir.Answer {
	a, answered := n.judge(&weir.Event{Time: n.now(), Account: account})
	if !answered { // it may have been granted
		s.mu.Lock()
		s.unanswered[account]++
		s.mu.Unlock()
		return a
	}
	at := time.Now()
	if a.Verdict == weir.Admit {
		s.mu.Lock()
		s.grant[account] = append(s.grant[account], at)
		s.mu.Unlock()
	}
	if !a.Hold.IsZero() {
		n.Settle(a.Hold, weir.Outcome{Time: n.now(), Done: true, Status: 200})
	}
	return a
}

func playSequence(t *testing.T, seed uint64) {
	const accounts, clients = 100, 12
	r := rand.New(rand.NewPCG(seed, 39))
	p := []Policy{
		{Limit: Count(40), Period: weir.Period{Calendar: weir.Month}},
		{Limit: Count(200), Period: weir.Period{Calendar: weir.Year}},
		{Limit: Count(60), Period: weir.Period{Length: 24 * time.Hour}, Ahead: Count(0)},
		{Limit: Count(200), Period: weir.Period{Length: 24 * time.Hour}, Window: Sliding},
		{Limit: Count(60), Period: weir.Period{Length: 24 * time.Hour}, Window: GCRA, Burst: Count(60)},
	}[r.IntN(5)]
	time.Sleep(30 * time.Hour)
	s := &sequence{lendingFarm: newLendingFarm(t, nodes, exactly(p)), o: exactly(p), r: r,
		grant: map[string][]time.Time{}, unanswered: map[string]int64{}}
	s.seed(seed)
	s.saved = s.pot.Save()
	busy := 1 + int(p.Limit.N/25) // so that some limits are used up, and others are not
	done := make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(s.random(int(40 * time.Millisecond)))):
				}
				account := fmt.Sprint("a", s.random(accounts))
				if s.random(4) > 0 {
					account = fmt.Sprint("a", s.random(busy))
				}
				if up := s.lendingFarm.all(); len(up) > 0 {
					if n := up[s.random(len(up))]; n.ready() {
						s.ask(n, account)
					}
				}
			}
		})
	}
	for range 2 + s.random(4) {
		time.Sleep(time.Duration(s.random(int(500 * time.Millisecond))))
		up := s.lendingFarm.all()
		if len(up) == 0 {
			continue
		}
		n, h := up[s.random(len(up))], happens[s.random(len(happens))]
		s.tell(h.name, n)
		h.do(s, n)
	}
	time.Sleep(200 * time.Millisecond)
	close(done)
	all.Wait()
	time.Sleep(time.Until(s.last) + time.Millisecond)
	s.heal()
	for _, name := range s.left {
		s.forget(name)
	}
	s.whole = time.Now().Add(wholeWithin + s.moved)
	for i := range busy {
		all.Go(func() { s.drain(fmt.Sprint("a", i)) })
	}
	all.Wait()
	s.check(p, busy)
	s.close()
}

// wholeWithin is how long an engine may wait for nodes when all are up, hear each other and reach it. Where clocks were
// set, it takes as much longer.
const wholeWithin = 2 * time.Second

// drain uses up what is left.
func (s *sequence) drain(account string) {
	up := s.lendingFarm.all()
	for refused, tries := 0, 0; refused < len(up) && tries < 2000; tries++ {
		a := s.ask(up[tries%len(up)], account)
		switch {
		case a.Verdict == weir.Admit:
			refused = 0
		case a.Reason == weir.Overload && time.Now().Before(s.whole):
			time.Sleep(50 * time.Millisecond)
		case a.Reason == weir.Overload:
			s.t.Errorf("%s: the engine still waits at %s", account, up[tries%len(up)].name)
			return
		default:
			refused++
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (s *sequence) check(p Policy, busy int) {
	// Nothing is missing while nobody is killed. A kill costs what a node has taken ahead, and a step on the disk: each
	// is a twentieth of the limit for all nodes together. An engine that is lost besides costs what all have ahead,
	// where it does not hear from one what that one had.
	least := p.Limit.N * 99 / 100
	if s.kills > 0 {
		worst := least - int64(2*s.kills+nodes*s.losses)*(1+p.Limit.N/(20*nodes))
		if least = worst; s.kills <= nodes {
			least = max(worst, p.Limit.N*90/100)
		}
	}
	for account, grants := range s.grant {
		slices.SortFunc(grants, time.Time.Compare)
		if !s.lossy || s.losses == 0 {
			checkSequence(s.t, p, account, grants)
		}
	}
	if p.Window != GCRA && !s.lossy {
		for i := range busy {
			account := fmt.Sprint("a", i)
			if got := int64(len(s.grant[account])) + s.unanswered[account]; got < least {
				s.t.Errorf("a%d: %d of %d were granted", i, got, p.Limit.N)
			}
		}
	}
	if s.t.Failed() {
		s.t.Logf("%+v\n%s", p.Window, strings.Join(s.story, "\n"))
	}
}

// checkSequence holds what one account was granted against a limit whose window is longer than a sequence.
func checkSequence(t *testing.T, p Policy, account string, grants []time.Time) {
	over := int64(len(grants)) - p.Limit.N
	if p.Window == GCRA { // it gets something back meanwhile
		took := grants[len(grants)-1].Sub(grants[0])
		over = int64(len(grants)) - p.Burst.N - 1 - int64(took*time.Duration(p.Limit.N)/p.Period.Length)
	}
	if over > 0 {
		t.Errorf("%s: %d granted, of %d", account, len(grants), p.Limit.N)
	}
}
