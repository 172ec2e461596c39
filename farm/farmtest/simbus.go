package farmtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"weir/farm"
)

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
