package spool

import (
	"errors"
	"fmt"
	"sync/atomic"
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

var errNoGate = errors.New("spool: there is no gate yet")

// firstGate is the gate in whose name something is told that concerns no other.
func (e *env) firstGate() (*Gate, error) {
	all := e.gates.Load()
	if len(all.list) == 0 {
		return nil, fmt.Errorf("%w", errNoGate)
	}
	return all.list[0].conf.Load(), nil
}

// A gateway is where the mail of one gate goes out.
type gateway struct {
	conf    atomic.Pointer[Gate]
	queue   chan *job
	slots   atomic.Int64 // in the queue, taken or reserved, until how it ended is stored
	going   atomic.Int64 // mails that wait for a worker or have one
	workers int          // workers there are; under delivery.workersMu
	want    atomic.Int64 // workers there should be
	quit    chan struct{}
	// Something did not fit, and is left in the store.
	overflowed atomic.Bool
}

func newGateway(queue int) *gateway {
	return &gateway{queue: make(chan *job, queue), quit: make(chan struct{})}
}

// reserve takes a slot in the queue, if there is one.
func (g *gateway) reserve() bool {
	if g.slots.Add(1) <= int64(cap(g.queue)) {
		return true
	}
	g.slots.Add(-1)
	return false
}

func (g *gateway) unreserve() { g.slots.Add(-1) }

// gone reports whether there is no such gate any more.
func (g *gateway) gone() bool {
	select {
	case <-g.quit:
		return true
	default:
		return false
	}
}

func (g *gateway) full() bool { return g.slots.Load() >= int64(cap(g.queue)) }

func (g *gateway) load() float64 { return float64(g.going.Load()) / float64(g.conf.Load().Connections) }

// poolable is how many mails without stamps may go on: none while anything waits for a worker.
func (g *gateway) poolable() int {
	if g == nil || len(g.queue) > 0 {
		return 0
	}
	conf := g.conf.Load()
	going := int(g.going.Load())
	if going == 0 {
		return max(1, int(conf.PoolBelow*float64(conf.Connections)))
	}
	return int(conf.PoolBelow*float64(conf.Connections)) - going
}
