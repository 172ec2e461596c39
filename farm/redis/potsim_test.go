package redis

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"weir/farm"
)

// giveUp is how long a simulated node waits for a reply.
const giveUp = 20 * ms

// simulatePot lets nodes with blocks use an engine on which everything goes wrong: calls are lost, repeated, executed
// late; replies are lost; the engine stands still, starts again with nothing, is promoted without its last tenth of a
// second and with another clock; nodes die. It returns an error when more than a limit was spent, or when in the end
// somebody cannot have what nobody uses. The same seed is the same story.
func simulatePot(seed uint64, rig *potRig) error {
	s := &potSim{r: rand.New(rand.NewPCG(seed, 20)), rig: rig, faults: true}
	s.wants = potWants(s.r)
	s.ledger = make([]ledger, len(s.wants))
	for i := range s.ledger {
		s.ledger[i].slices = map[int64]int64{}
	}
	for range 2 + s.r.IntN(4) {
		s.join(len(s.nodes))
	}
	s.disturb()
	s.run(6 * time.Second)
	// What goes wrong ends; late calls arrive; what dead nodes have ends with its window.
	s.faults = false
	s.run(5 * time.Second)
	s.calm()
	if s.err == nil {
		s.checkSteady()
	}
	if s.err != nil {
		return fmt.Errorf("%w\nlimits: %+v", s.err, s.wants)
	}
	return nil
}

// A potSim is a simulation under way.
type potSim struct {
	r      *rand.Rand
	rig    *potRig
	now    time.Duration // since potTime
	events potEvents
	wants  []farm.Want
	nodes  []*potNode // the latest run of each
	dead   []*potNode
	ledger []ledger
	faults bool // something may go wrong

	skew    time.Duration // of the engine's clock
	ahead   time.Duration // by how much it has jumped ahead in all
	lost    bool          // it has lost something, and does not know it again yet
	stalled bool
	queue   []func() // calls that have reached an engine that stands still
	err     error
}

// A ledger is what was spent of one limit.
type ledger struct {
	slices map[int64]int64
	times  []time.Duration // Steady
}

type potEvent struct {
	at time.Duration
	n  uint64
	do func()
}

type potEvents struct {
	list []potEvent
	n    uint64
}

func (e *potEvents) Len() int { return len(e.list) }
func (e *potEvents) Less(i, j int) bool {
	a, b := e.list[i], e.list[j]
	return a.at < b.at || a.at == b.at && a.n < b.n
}
func (e *potEvents) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *potEvents) Push(x any)    { e.list = append(e.list, x.(potEvent)) }
func (e *potEvents) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

func (s *potSim) after(d time.Duration, do func()) {
	s.events.n++
	heap.Push(&s.events, potEvent{s.now + d, s.events.n, do})
}

func (s *potSim) run(d time.Duration) {
	for end := s.now + d; s.err == nil; {
		if s.events.Len() == 0 || s.events.list[0].at > end {
			s.now = end
			return
		}
		e := heap.Pop(&s.events).(potEvent)
		s.now = e.at
		e.do()
	}
}

func (s *potSim) chance(p float64) bool { return s.faults && s.r.Float64() < p }

// between is a random time.
func (s *potSim) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.r.Int64N(int64(most-least)))
}

func (s *potSim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at %v: "+format, append([]any{s.now}, args...)...)
	}
}

// disturb makes things go wrong, now and then.
func (s *potSim) disturb() {
	s.after(s.between(50*ms, 1500*ms), func() {
		if !s.faults {
			return
		}
		switch s.r.IntN(5) {
		case 0:
			s.stall(s.between(5*ms, 300*ms))
		case 1:
			s.stall(s.between(300*ms, 3*time.Second))
		case 2:
			s.kill(s.r.IntN(len(s.nodes)))
		case 3:
			s.lose(s.rig.Restart)
			if s.r.IntN(2) == 0 { // when some have told what they know
				s.after(s.between(ms, 20*ms), func() { s.stall(s.between(2*time.Second, 4*time.Second)) })
			}
		case 4:
			promote := s.rig.Save()
			s.after(s.between(0, 100*ms), func() {
				s.lose(func() {
					promote()
					jump := s.between(-300*ms, 300*ms)
					s.skew += jump
					s.ahead += max(0, jump)
				})
			})
		}
		s.disturb()
	})
}

func (s *potSim) stall(d time.Duration) {
	if s.stalled {
		return
	}
	s.stalled = true
	s.after(d, func() {
		// They came over several connections.
		s.r.Shuffle(len(s.queue), func(i, j int) { s.queue[i], s.queue[j] = s.queue[j], s.queue[i] })
		s.stalled = false
		queue := s.queue
		s.queue = nil
		for _, do := range queue {
			do()
		}
	})
}

// lose makes the engine lose something, unless only a dead node knows it: that cannot be made up for.
func (s *potSim) lose(what func()) {
	if s.knowMore(s.dead, s.nodes) {
		return
	}
	s.lost = true
	what()
}

// kill ends a run and starts the next one of that node, unless it alone knows what the engine has lost.
func (s *potSim) kill(i int) {
	n := s.nodes[i]
	if s.lost && s.knowMore([]*potNode{n}, slices.Delete(slices.Clone(s.nodes), i, i+1)) {
		return
	}
	n.alive, n.died = false, s.now
	s.dead = append(s.dead, n)
	s.join(i)
}

// knowMore reports whether some nodes know more of a limit than others.
func (s *potSim) knowMore(some, than []*potNode) bool {
	for i := range s.wants {
		if newest(some, i) > newest(than, i) {
			return true
		}
	}
	return false
}

// newest is the version of the newest mark of some nodes.
func newest(nodes []*potNode, rule int) (newest int64) {
	for _, n := range nodes {
		if mark := n.rules[rule].mark; mark != "" {
			r := reader{rest: mark}
			newest = max(newest, r.number())
		}
	}
	return newest
}

// live are the runs that a node takes for live: those that are, and those that died just now.
func (s *potSim) live() (live []string) {
	for _, n := range s.nodes {
		live = append(live, n.name)
	}
	for _, n := range s.dead {
		if s.now-n.died < farm.LostAfter {
			live = append(live, n.name)
		}
	}
	return live
}

// A potNode is one run of a node.
type potNode struct {
	*potSim
	name    string
	alive   bool
	died    time.Duration
	seq     uint64
	engine  string   // as it was last seen
	call    *potCall // under way
	rules   []potRule
	waiting int64 // requests that want to be let through
}

// A potRule is what a run knows of one limit.
type potRule struct {
	mark       string
	slice      int64
	spent, may int64 // what it has spent of the slice, and what it may have by then
	until      time.Duration
}

// A potCall is one attempt of a call.
type potCall struct {
	ask      farm.Ask
	sent     time.Duration
	executed time.Duration
}

// join starts a run of the i-th node.
func (s *potSim) join(i int) {
	n := &potNode{potSim: s, name: fmt.Sprintf("n%d.%d", i, len(s.dead)), alive: true, engine: "unknown"}
	n.rules = make([]potRule, len(s.wants))
	if i < len(s.nodes) {
		s.nodes[i] = n
	} else {
		s.nodes = append(s.nodes, n)
	}
	pace := s.between(2*ms, 20*ms)
	var demand, idle func()
	demand = func() {
		if n.alive && s.faults {
			for range 1 + 15*(s.r.IntN(20)/19) { // they come in bursts
				n.request()
			}
			s.after(s.between(0, 2*pace), demand)
		}
	}
	idle = func() {
		if n.alive && s.faults {
			if n.call == nil && s.r.IntN(3) > 0 {
				n.send(0, s.r.IntN(2) == 0)
			}
			s.after(s.between(20*ms, 500*ms), idle)
		}
	}
	s.after(s.between(0, pace), demand)
	s.after(s.between(0, 500*ms), idle)
}

// request is one request that wants to be let through.
func (n *potNode) request() {
	if n.spendable(nil) {
		n.spend(n.now)
		return
	}
	n.waiting = min(n.waiting+1, 5)
	if n.call == nil {
		n.send(n.waiting, n.r.IntN(2) == 0)
	}
}

// spendable reports whether one of each limit may be spent: of what was granted earlier, or by a reply just now.
func (n *potNode) spendable(now *potCall) bool {
	for i := range n.rules {
		r, w := &n.rules[i], &n.wants[i]
		atOnce := now != nil && w.Way == farm.Steady && w.Life == 0
		if r.spent >= r.may || n.now >= r.until && !atOnce {
			return false
		}
	}
	return true
}

// spend spends one of each limit, and holds it against the limits.
func (n *potNode) spend(granted time.Duration) {
	for i := range n.rules {
		r, w, l := &n.rules[i], &n.wants[i], &n.ledger[i]
		r.spent++
		switch w.Way {
		case farm.Fixed:
			if l.slices[r.slice]++; l.slices[r.slice] > w.Limit {
				n.fail("%s spends %d of %d of %s in %d", n.name, l.slices[r.slice], w.Limit, w.Rule, r.slice)
			}
		case farm.Sliding:
			l.slices[r.slice]++
			for first := r.slice - 16; first <= r.slice; first++ {
				sum := int64(0)
				for b := first; b <= first+16; b++ {
					sum += l.slices[b]
				}
				if sum > w.Limit {
					n.fail("%s spends %d of %d of %s from %d", n.name, sum, w.Limit, w.Rule, first)
				}
			}
		case farm.Steady:
			if w.Life > 0 {
				l.times = append(l.times, n.now)
			} else {
				l.times = append(l.times, granted)
			}
		case farm.Level:
			sum := int64(0)
			for _, other := range n.nodes {
				if n.now < other.rules[i].until {
					sum += other.rules[i].spent
				}
			}
			if sum > w.Limit {
				n.fail("%s makes %d of %d of %s", n.name, sum, w.Limit, w.Rule)
			}
			n.after(n.between(ms, 300*ms), func() { r.spent = max(0, r.spent-1) })
		}
	}
}

// send calls the engine. It keeps what it has, or gives back what it has not spent.
func (n *potNode) send(need int64, keep bool) {
	n.seq++
	ask := farm.Ask{Key: "k", Run: n.name, Seq: n.seq, Nodes: n.live()}
	for i, w := range n.wants {
		r := &n.rules[i]
		if n.now >= r.until || !keep {
			r.may = min(r.may, r.spent)
		}
		w.Mark, w.Used, w.Need = r.mark, max(r.spent, r.may), need
		if w.Way == farm.Level && n.now >= r.until {
			r.spent, w.Used = 0, 0 // whoever is not heard of must have ended it
		}
		if need > 0 && (w.Way != farm.Steady || w.Life > 0) {
			w.Ahead = n.r.Int64N(10)
		}
		ask.Wants = append(ask.Wants, w)
	}
	n.attempt(ask)
}

// attempt sends a call that may be a repetition.
func (n *potNode) attempt(ask farm.Ask) {
	for i, w := range ask.Wants {
		if w.Way == farm.Level && w.Used > 0 && n.now >= n.rules[i].until { // others may have these places now
			n.send(ask.Wants[0].Need, true)
			return
		}
	}
	ask.Engine = n.engine
	c := &potCall{ask: ask, sent: n.now}
	n.call = c
	reach := n.between(100*time.Microsecond, 3*ms)
	if n.chance(0.05) {
		reach = n.between(giveUp, 3*time.Second) // late: nobody waits for the reply
	}
	if !n.chance(0.05) {
		n.after(reach, func() { n.execute(c) })
	}
	if n.chance(0.05) {
		n.after(reach+n.between(0, time.Second), func() { n.execute(&potCall{ask: ask, sent: c.sent}) })
	}
	n.after(giveUp, func() {
		if n.call != c || !n.alive {
			return
		}
		n.call = nil
		if n.r.IntN(2) == 0 {
			n.attempt(ask)
		} else {
			n.send(ask.Wants[0].Need, n.r.IntN(2) == 0)
		}
	})
}

// execute is when a call reaches the engine.
func (n *potNode) execute(c *potCall) {
	if n.stalled {
		n.queue = append(n.queue, func() { n.execute(c) })
		return
	}
	reply := n.take(c.ask)
	c.executed = n.now
	if reply.Granted && !reply.Stale {
		n.lost = false
	}
	if !n.chance(0.05) {
		n.after(n.between(100*time.Microsecond, 3*ms), func() {
			if n.call == c && n.alive {
				n.call = nil
				n.hear(c, reply)
			}
		})
	}
}

func (n *potNode) take(ask farm.Ask) farm.Reply {
	n.rig.SetTime(potTime.Add(n.now + n.skew))
	reply, err := n.rig.Pot.Take(context.Background(), ask)
	if err != nil && !errors.Is(err, farm.ErrEngine) {
		n.fail("%s: %w", n.name, err)
	}
	return reply
}

// hear takes a reply.
func (n *potNode) hear(c *potCall, reply farm.Reply) {
	if n.engine = reply.Engine; reply.Grants == nil {
		n.attempt(c.ask)
		return
	}
	for i, g := range reply.Grants {
		r := &n.rules[i]
		if g.Slice != r.slice {
			r.slice, r.spent = g.Slice, 0
		}
		r.mark, r.may, r.until = g.Mark, g.Total, c.sent+g.For
	}
	if reply.Granted {
		for range min(c.ask.Wants[0].Need, n.waiting) {
			if n.spendable(c) {
				n.spend(c.executed)
				n.waiting--
			}
		}
	}
	if len(reply.Waiting) > 0 {
		for _, other := range n.nodes {
			if slices.Contains(reply.Waiting, other.name) {
				n.after(n.between(ms, 5*ms), other.tell)
			}
		}
		n.after(100*ms, n.tell)
		return
	}
	n.waiting = 0
}

// tell tells the engine what the node knows.
func (n *potNode) tell() {
	if n.alive && n.call == nil {
		n.send(0, true)
	}
}

// calm is the end: nothing goes wrong but that replies are lost. All nodes take something in one slice, and return what
// they have not spent. Then one of them can have all the rest.
func (s *potSim) calm() {
	s.after(time.Second-(s.now+s.skew+time.Hour)%time.Second, func() {}) // the start of a second of the engine's
	s.run(time.Second)
	for _, n := range s.nodes {
		n.call, n.waiting = nil, 0
		n.turn(0, true) // also opens what is closed
	}
	spent := make([]int64, len(s.wants))
	for range 3 {
		for _, n := range s.nodes {
			n.turn(2, s.r.IntN(3) > 0)
			for range 2 {
				if n.spendable(nil) {
					n.spend(s.now)
				}
			}
			s.now += s.between(0, 5*ms)
		}
	}
	for _, n := range s.nodes {
		n.turn(0, true)
	}
	for i, w := range s.wants {
		for _, n := range s.nodes {
			if w.Way == farm.Level || w.Way == farm.Fixed {
				spent[i] += n.rules[i].spent
			}
		}
		w.Mark, w.Ahead = "", farm.MaxNumber
		reply := s.nodes[0].take(farm.Ask{Key: "k", Run: "rest", Seq: uint64(i + 1), Nodes: s.live(), Wants: []farm.Want{w}})
		if s.err != nil {
			return
		}
		rest := reply.Grants[0]
		if w.Way == farm.Sliding {
			for b := rest.Slice - 16; b <= rest.Slice; b++ {
				spent[i] += s.ledger[i].slices[b]
			}
		}
		// Dead nodes had some of the month's, and a debt is nobody's.
		exact := w.Way != farm.Steady && w.Period <= time.Second+time.Microsecond && w.Start.IsZero()
		if exact && rest.Total+spent[i] != w.Limit {
			s.fail("%s: %d spent, and %d can be had of %d", w.Rule, spent[i], rest.Total, w.Limit)
		}
		if w.Way != farm.Steady && rest.Total+rest.Others != w.Limit {
			s.fail("%s: %d of others, and %d can be had of %d", w.Rule, rest.Others, rest.Total, w.Limit)
		}
	}
	s.now += 5 * time.Minute
	for i, w := range s.wants {
		if w.Way != farm.Steady {
			continue
		}
		w.Mark, w.Ahead, w.Need = "", farm.MaxNumber, 1
		rest := s.nodes[0].take(farm.Ask{Key: "k", Run: "steady", Seq: uint64(i + 1), Nodes: s.live(), Wants: []farm.Want{w}})
		if s.err != nil {
			return
		}
		if got := rest.Grants[0].Total; got < w.Burst-(w.Limit*int64(w.Life)/int64(w.Period))-1 {
			s.fail("%s: only %d of a burst of %d can be had", w.Rule, got, w.Burst)
		}
	}
}

// turn is a call whose reply comes at once, if it comes.
func (n *potNode) turn(need int64, heard bool) {
	n.send(need, false)
	c := n.call
	c.ask.Engine = ""
	n.call = nil
	reply := n.take(c.ask)
	if c.executed = n.now; heard {
		n.hear(c, reply)
	}
}

// checkSteady holds what was spent of steady rates against them.
func (s *potSim) checkSteady() {
	for i, l := range s.ledger {
		w := s.wants[i]
		if w.Way != farm.Steady {
			continue
		}
		slices.Sort(l.times)
		one := float64(w.Period) / float64(w.Limit)
		owed, last := 0.0, time.Duration(0)
		for _, at := range l.times {
			owed = max(0, owed-float64(at-last)) + one
			last = at
			if owed > float64(w.Burst)*one+float64(s.ahead)+float64(time.Microsecond) {
				s.now = at
				s.fail("%s: %.1f are owed, of %d", w.Rule, owed/one, w.Burst)
				return
			}
		}
	}
}
