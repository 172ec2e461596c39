package farmtest

import (
	"cmp"
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"weir"
	"weir/farm"
)

// A Network says how a simulated bus treats messages. The zero value delivers each of them once and at once.
type Network struct {
	DelayMin, DelayMax time.Duration // reorders messages where they differ by more than what lies between messages
	Loss, Repeat       float64       // shares of messages, from 0 to 1; Loss is also that of questions
	Outbox             int           // bytes that may wait to be sent; 0: 8 MiB
	Rate               int           // bytes a second that a node sends; 0: 100 MB
	Backlog            int           // messages that reach a stopped node when it wakes, the first ones; 0: 1000
}

// A Sim is a farm in simulated time. Make it with NewSim. One goroutine uses it.
type Sim struct {
	Network Network // may change between runs
	Rand    *rand.Rand

	now    time.Time
	events events
	pushed uint64
	nodes  []*SimNode // by name
	cut    map[[2]string]bool
}

// NewSim returns a simulation without nodes.
func NewSim(seed uint64, n Network) *Sim {
	return &Sim{
		Network: n, Rand: rand.New(rand.NewPCG(seed, 18)), cut: map[[2]string]bool{},
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Now is the true time, which no node knows.
func (s *Sim) Now() time.Time { return s.now }

// After does something in the middle of a later Run.
func (s *Sim) After(d time.Duration, do func()) { s.at(s.now.Add(d), do) }

// Every does something again and again, until it returns false.
func (s *Sim) Every(d time.Duration, do func() bool) {
	s.After(d, func() {
		if do() {
			s.Every(d, do)
		}
	})
}

// Run lets time pass.
func (s *Sim) Run(d time.Duration) {
	end := s.now.Add(d)
	for len(s.events) > 0 && !s.events[0].at.After(end) {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.now = end
}

// Nodes returns all nodes, by name.
func (s *Sim) Nodes() []*SimNode { return slices.Clone(s.nodes) }

// Cut parts two sets of nodes, in both directions. Messages under way are lost.
func (s *Sim) Cut(left, right []*SimNode) {
	for _, a := range left {
		for _, b := range right {
			if a != b {
				s.cut[[2]string{a.Name, b.Name}] = true
				s.cut[[2]string{b.Name, a.Name}] = true
			}
		}
	}
}

// CutOneWay loses all messages of one node to another.
func (s *Sim) CutOneWay(from, to *SimNode) { s.cut[[2]string{from.Name, to.Name}] = true }

// Heal ends all cuts.
func (s *Sim) Heal() { clear(s.cut) }

// at puts an event on the heap.
func (s *Sim) at(at time.Time, do func()) {
	s.pushed++
	if at.Before(s.now) {
		at = s.now
	}
	heap.Push(&s.events, event{at, s.pushed, do})
}

// chance is true with a probability.
func (s *Sim) chance(p float64) bool { return p > 0 && s.Rand.Float64() < p }

// delay is how long one message is under way.
func (s *Sim) delay() time.Duration {
	d := s.Network.DelayMin
	if spread := s.Network.DelayMax - d; spread > 0 {
		d += time.Duration(s.Rand.Int64N(int64(spread)))
	}
	return d
}

// An event is something that happens at a time. Of those at the same time the first that was put there goes first.
type event struct {
	at  time.Time
	seq uint64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].seq, e[j].seq)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// driven is something of one run of a node that acts as time passes.
type driven struct {
	run  *run
	what weir.Clocked
	time func() time.Time // by the node's clock, or the farm's
	due  time.Time        // true time; zero: nothing is planned
	plan uint64           // earlier plans are void
}

// wake plans a call at a time of the clock that drives it.
func (d *driven) wake(due time.Time) {
	s := d.run.node.sim
	at := s.now.Add(due.Sub(d.time()))
	if at.Before(s.now) {
		at = s.now
	}
	if !d.due.IsZero() && !at.Before(d.due) {
		return
	}
	d.due = at
	d.plan++
	plan := d.plan
	s.at(at, func() {
		if plan == d.plan {
			d.advance()
		}
	})
}

func (d *driven) advance() {
	n := d.run.node
	if n.run != d.run {
		return // that run has ended
	}
	if n.stopped {
		n.overdue = append(n.overdue, d)
		return
	}
	if s := n.sim; n.busy.After(s.now) {
		plan := d.plan
		s.at(n.busy, func() {
			if plan == d.plan {
				d.advance()
			}
		})
		return
	}
	d.due = time.Time{}
	now := d.time()
	next := d.what.Advance(now)
	if !next.IsZero() {
		d.wake(maxTime(next, now.Add(time.Microsecond))) // time passes, whatever it says
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// A SimNode is a node of a simulation, over all its runs. Make it with Sim.Node.
type SimNode struct {
	Name    string
	Skew    time.Duration // of its machine's clock; may change
	Secrets [][]byte      // of the next run
	// Wrap, if any, stands between the next run and its bus.
	Wrap func(farm.Bus) farm.Bus
	// Started, if any, is called when a run has begun: it keeps states, answers questions and drives mechanisms.
	Started func(n *SimNode)
	// Options changes what the next run joins with.
	Options func(j *farm.Joining)
	// Kept is what its disk has: who belongs to the farm.
	Kept []byte

	sim     *Sim
	run     *run
	boots   map[uint64]bool // of its runs
	stopped bool
	overdue []*driven
	backlog []func()
	busy    time.Time // until when nothing else is done
}

// A run is one life of a node.
type run struct {
	node *SimNode
	bus  *simBus
	farm *farm.Farm
}

// Secret is what nodes of a simulation share, if they are given nothing else.
const Secret = "the secret of a simulated farm"

// Node adds a node, which Start starts.
func (s *Sim) Node(name string) *SimNode {
	n := &SimNode{Name: name, Secrets: [][]byte{[]byte(Secret)}, sim: s, boots: map[uint64]bool{}}
	s.nodes = append(s.nodes, n)
	slices.SortStableFunc(s.nodes, func(a, b *SimNode) int { return cmp.Compare(a.Name, b.Name) })
	return n
}

// Clock is the time of the node's machine.
func (n *SimNode) Clock() time.Time { return n.sim.now.Add(n.Skew) }

// FarmTime is the farm's time as the node knows it.
func (n *SimNode) FarmTime() time.Time { return n.Clock().Add(n.Farm().Offset()) }

// Farm returns the farm of the node's run, nil if it does not run.
func (n *SimNode) Farm() *farm.Farm {
	if n.run == nil {
		return nil
	}
	return n.run.farm
}

// Running reports whether the node runs and is not stopped.
func (n *SimNode) Running() bool { return n.run != nil && !n.stopped }

// Start begins a run. An earlier one ends without a goodbye.
func (n *SimNode) Start() error {
	n.Kill()
	r := &run{node: n}
	r.bus = &simBus{run: r, hears: map[string][]*hearer{}, answers: map[[2]string]func([]byte) []byte{}}
	n.run = r
	boot := uint64(n.Clock().UnixMicro())
	for n.boots[boot] {
		boot++ // no node restarts within a microsecond
	}
	n.boots[boot] = true
	j := farm.Joining{
		Bus: r.bus, Node: farm.Node{Name: n.Name, Boot: boot},
		Secrets: n.Secrets, Version: "simulated", Kept: n.Kept,
		Keep: func(roll []byte, done func(error)) { n.Kept = roll; done(nil) },
	}
	if n.Wrap != nil {
		j.Bus = n.Wrap(j.Bus)
	}
	if n.Options != nil {
		n.Options(&j)
	}
	var err error
	if r.farm, err = farm.Join(j, n.Clock()); err != nil {
		n.run = nil
		return err
	}
	n.drive(r.farm, n.Clock)
	if n.Started != nil {
		n.Started(n)
	}
	return nil
}

// Drive lets the run drive something by the farm's time, as long as it lasts.
func (n *SimNode) Drive(what weir.Clocked) { n.drive(what, n.FarmTime) }

func (n *SimNode) drive(what weir.Clocked, clock func() time.Time) {
	d := &driven{run: n.run, what: what, time: clock}
	what.Alarm(d.wake)
	d.wake(clock())
}

// Busy makes what the node is doing take some time. It does nothing else meanwhile; messages wait for it.
func (n *SimNode) Busy(d time.Duration) { n.busy = maxTime(n.busy, n.sim.now).Add(d) }

// Kill ends the run without a goodbye.
func (n *SimNode) Kill() {
	if n.run != nil {
		n.run.bus.closed = true
	}
	n.run, n.stopped, n.overdue, n.backlog = nil, false, nil, nil
}

// Stop lets the run stand still, as SIGSTOP does.
func (n *SimNode) Stop() { n.stopped = n.run != nil }

// Wake lets a stopped run go on. What came meanwhile arrives now.
func (n *SimNode) Wake() {
	backlog, overdue := n.backlog, n.overdue
	n.stopped, n.backlog, n.overdue = false, nil, nil
	for _, arrive := range backlog {
		arrive()
	}
	for _, d := range overdue {
		d.advance()
	}
}

// A simBus is the bus of one run of a node.
type simBus struct {
	run     *run
	hears   map[string][]*hearer
	answers map[[2]string]func([]byte) []byte // by node and topic
	idle    time.Time                         // when everything is sent
	stats   farm.BusStats
	closed  bool
}

type hearer struct{ f func([]byte) }

func (b *simBus) sim() *Sim { return b.run.node.sim }

// reaches reports whether messages of one node get to another.
func (s *Sim) reaches(from, to *SimNode) bool {
	return from != to && to.run != nil && !s.cut[[2]string{from.Name, to.Name}]
}

// waiting is how many bytes are not sent yet.
func (b *simBus) waiting() int {
	left := b.idle.Sub(b.sim().now)
	return int(max(left, 0).Seconds() * float64(b.sim().rate()))
}

func (s *Sim) rate() int { return cmp.Or(s.Network.Rate, 100_000_000) }

func (b *simBus) Send(topic string, msg []byte) error {
	s := b.sim()
	switch {
	case b.closed:
		return farm.ErrClosed
	case len(msg) > farm.MaxMessage:
		return farm.ErrTooLarge
	case b.waiting()+len(msg) > cmp.Or(s.Network.Outbox, 8<<20):
		b.stats.Dropped++
		return farm.ErrOutbox
	}
	b.stats.Sent++
	b.idle = maxTime(b.idle, s.now).Add(time.Duration(len(msg)) * time.Second / time.Duration(s.rate()))
	msg = slices.Clone(msg)
	for _, to := range s.nodes {
		if !s.reaches(b.run.node, to) || len(to.run.bus.hears[topic]) == 0 || s.chance(s.Network.Loss) {
			continue
		}
		times := 1
		if s.chance(s.Network.Repeat) {
			times = 2
		}
		for range times {
			s.at(b.idle.Add(s.delay()), func() { s.arrive(b.run.node, to, topic, msg) })
		}
	}
	return nil
}

// arrive delivers a message to whatever run of a node there is by now.
func (s *Sim) arrive(from, to *SimNode, topic string, msg []byte) {
	switch {
	case !s.reaches(from, to):
	case !to.stopped:
		to.run.bus.deliver(topic, msg)
	case len(to.backlog) < cmp.Or(s.Network.Backlog, 1000):
		bus := to.run.bus
		to.backlog = append(to.backlog, func() { bus.deliver(topic, msg) })
	default:
		to.run.bus.stats.Dropped++
	}
}

func (b *simBus) deliver(topic string, msg []byte) {
	if b.closed {
		return
	}
	b.stats.Received++
	for _, h := range slices.Clone(b.hears[topic]) {
		h.f(slices.Clone(msg))
	}
}

func (b *simBus) Hear(topic string, f func(msg []byte)) (stop func(), err error) {
	if b.closed {
		return nil, farm.ErrClosed
	}
	h := &hearer{f}
	b.hears[topic] = append(b.hears[topic], h)
	return func() {
		b.hears[topic] = slices.DeleteFunc(b.hears[topic], func(other *hearer) bool { return other == h })
	}, nil
}

// Ask is answered at the same instant, or not at all.
func (b *simBus) Ask(ctx context.Context, to, topic string, msg []byte) ([]byte, error) {
	s := b.sim()
	switch {
	case b.closed:
		return nil, farm.ErrClosed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(msg) > farm.MaxMessage:
		return nil, farm.ErrTooLarge
	}
	for _, n := range s.nodes {
		if n.run == nil {
			continue
		}
		answer := n.run.bus.answers[[2]string{to, topic}]
		if answer == nil || n == b.run.node {
			continue
		}
		if !s.reaches(b.run.node, n) || n.stopped || s.chance(s.Network.Loss) {
			return nil, context.DeadlineExceeded
		}
		reply := answer(slices.Clone(msg))
		if reply == nil || !s.reaches(n, b.run.node) || s.chance(s.Network.Loss) {
			return nil, context.DeadlineExceeded
		}
		return reply, nil
	}
	return nil, farm.ErrGone
}

func (b *simBus) Answer(node, topic string, f func(msg []byte) []byte) (stop func(), err error) {
	if b.closed {
		return nil, farm.ErrClosed
	}
	key := [2]string{node, topic}
	b.answers[key] = f
	return func() { delete(b.answers, key) }, nil
}

func (b *simBus) Stats() farm.BusStats {
	stats := b.stats
	stats.Waiting = b.waiting()
	return stats
}

func (b *simBus) Close(context.Context) error {
	b.closed = true
	return nil
}
