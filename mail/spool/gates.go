package spool

import (
	"context"
	"sync"
	"sync/atomic"

	"weir/store"
)

// gates are the gates there are.
type gates struct {
	list   []*gateway
	byName map[string]*gateway
}

// of returns how a gate is configured, or nil.
func (g *gates) of(name string) *Gate {
	if way := g.byName[name]; way != nil {
		return way.conf.Load()
	}
	return nil
}

// way is where the mail of a gate goes out: of one that is gone, where that of the first one does. nil: there is none.
func (g *gates) way(name string) *gateway {
	if way := g.byName[name]; way != nil || len(g.list) == 0 {
		return way
	}
	return g.list[0]
}

// throttle returns the first gate with a throttle, or nil.
func (g *gates) throttle(name string) *Gate {
	for _, way := range g.list {
		if conf := way.conf.Load(); conf.Throttle == name {
			return conf
		}
	}
	return nil
}

// throttles returns one gate for each throttle there is.
func (g *gates) throttles() (list []*Gate) {
	known := map[string]bool{}
	for _, way := range g.list {
		if conf := way.conf.Load(); !known[conf.Throttle] {
			known[conf.Throttle] = true
			list = append(list, conf)
		}
	}
	return list
}

// A gateway is where the mail of one gate goes out.
type gateway struct {
	conf   atomic.Pointer[Gate]
	queue  chan *job
	places atomic.Int64 // in the queue, taken or reserved, until how it ended is stored
	going  atomic.Int64 // mails that wait for a worker or have one
	staff  int          // workers there are; under Spool.mu
	want   atomic.Int64 // workers there should be
	quit   chan struct{}
	// Something did not fit, and is left in the store.
	starved atomic.Bool
}

func newGateway(queue int) *gateway {
	return &gateway{queue: make(chan *job, queue), quit: make(chan struct{})}
}

// reserve takes a place in the queue, if there is one.
func (g *gateway) reserve() bool {
	if g.places.Add(1) <= int64(cap(g.queue)) {
		return true
	}
	g.places.Add(-1)
	return false
}

func (g *gateway) unreserve() { g.places.Add(-1) }

// gone reports whether there is no such gate any more.
func (g *gateway) gone() bool {
	select {
	case <-g.quit:
		return true
	default:
		return false
	}
}

func (g *gateway) full() bool { return g.places.Load() >= int64(cap(g.queue)) }

func (g *gateway) load() float64 { return float64(g.going.Load()) / float64(g.conf.Load().Connections) }

// staff sees to it that each gate has as many workers as it should have.
func (s *Spool) staff(all *gates) {
	for _, g := range all.list {
		want := g.conf.Load().Connections
		g.want.Store(int64(want))
		for ; g.staff < want; g.staff++ {
			number := int64(g.staff)
			s.running.Go(func() { s.work(g, number) })
		}
	}
}

// work is a worker. One that is not wanted any more leaves after its next mail.
func (s *Spool) work(g *gateway, number int64) {
	for {
		select {
		case <-s.halt.Done():
			return
		case <-g.quit:
			s.drop(g)
			return
		case j := <-g.queue:
			if s.halt.Err() != nil || g.gone() { // chance has chosen between two
				s.forget(j)
				continue
			}
			s.deliver(j)
		}
		if number >= g.want.Load() {
			s.mu.Lock()
			if number >= g.want.Load() && int64(g.staff) == number+1 {
				g.staff--
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
		}
	}
}

// drop forgets the mails that wait at a gate that is gone.
func (s *Spool) drop(g *gateway) {
	for {
		select {
		case j := <-g.queue:
			s.forget(j)
		default:
			return
		}
	}
}

// hand hands a mail over to the workers. Its place was reserved before.
func (s *Spool) hand(j *job) {
	if j.text != nil && s.bytes.Add(int64(len(j.text))) > s.opts.Bytes {
		s.bytes.Add(-int64(len(j.text)))
		s.tell.Bounded(BoundBytes)
		j.text = nil
	}
	s.flight.add(j)
	s.under.add()
	j.gate.going.Add(1)
	j.gate.queue <- j
	if j.gate.gone() { // its workers may have left already
		s.drop(j.gate)
	}
}

// forget ends a mail that is not delivered now. The store still has it.
func (s *Spool) forget(j *job) {
	j.gate.going.Add(-1)
	s.lighten(j)
	s.land(j)
}

// lighten gives the memory of a mail's text back.
func (s *Spool) lighten(j *job) {
	s.bytes.Add(-int64(len(j.text)))
	j.text = nil
}

// land ends what hand began.
func (s *Spool) land(j *job) {
	s.flight.remove(j)
	j.gate.unreserve()
	s.under.done()
}

// place names an addressee.
type place struct {
	mail   store.MailID
	number int
}

// flight is what has been handed to workers. It is as bounded as their queues.
type flight struct {
	mu sync.Mutex
	in map[place]int // how often: one may be handed over again just before its end is noted here
}

func (f *flight) add(j *job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.in == nil {
		f.in = map[place]int{}
	}
	for i := range j.to {
		f.in[place{j.letter.ID, j.to[i].Number}]++
	}
}

func (f *flight) remove(j *job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range j.to {
		at := place{j.letter.ID, j.to[i].Number}
		if f.in[at]--; f.in[at] <= 0 {
			delete(f.in, at)
		}
	}
}

func (f *flight) has(a *store.Addressee) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.in[place{a.Mail, a.Number}] > 0
}

// A tally counts what is under way. The zero value is ready to use.
type tally struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n gets 0; nil while nobody waits
}

func (t *tally) add() {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
}

func (t *tally) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
}

func (t *tally) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n > 0
}

func (t *tally) wait(ctx context.Context) error {
	t.mu.Lock()
	if t.n == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	none := t.none
	t.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
