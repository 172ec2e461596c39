package spool

import (
	"errors"
	"slices"
	"sync/atomic"
)

type gates struct {
	list   []*gateway
	byName map[string]*gateway
}

// of returns the configuration of a gate, or nil.
func (g *gates) of(name string) *Gate {
	if way := g.byName[name]; way != nil {
		return way.conf.Load()
	}
	return nil
}

// way is where the messages of a gate go out: the first gate for one that is gone. nil: there is no gate.
func (g *gates) way(name string) *gateway {
	if way := g.byName[name]; way != nil || len(g.list) == 0 {
		return way
	}
	return g.list[0]
}

// out is the configuration of way, or the defaults.
func (g *gates) out(name string) *Gate {
	if way := g.way(name); way != nil {
		return way.conf.Load()
	}
	conf := Gate{}.withDefaults()
	return &conf
}

// throttle returns the first gate with a throttle, or nil.
func (g *gates) throttle(name string) *Gate {
	all := g.throttles()
	if i := slices.IndexFunc(all, func(conf *Gate) bool { return conf.Throttle == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// throttles returns one gate for each throttle: one that takes commands, if there is one, or that keeps messages.
func (g *gates) throttles() (list []*Gate) {
	better := func(a, b *Gate) bool {
		return a.Command != "" && b.Command == "" || (a.Command != "") == (b.Command != "") && a.Admin != "" && b.Admin == ""
	}
	for _, way := range g.list {
		conf := way.conf.Load()
		i := slices.IndexFunc(list, func(other *Gate) bool { return other.Throttle == conf.Throttle })
		switch {
		case i < 0:
			list = append(list, conf)
		case better(conf, list[i]):
			list[i] = conf
		}
	}
	return list
}

var errNoGate = errors.New("spool: there is no gate yet")

// A gateway is where the messages of one gate go out.
type gateway struct {
	conf       atomic.Pointer[Gate]
	queue      chan *job
	slots      atomic.Int64 // in the queue, taken or reserved, until the end of the delivery is stored
	going      atomic.Int64 // messages that wait for a worker or have one
	workers    int          // workers there are; under delivery.workersMu
	want       atomic.Int64 // workers there should be
	quit       chan struct{}
	overflowed atomic.Bool // a message did not fit, and is left in the store
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

// poolable is how many messages without stamps may go on: none while a message waits for a worker.
func (g *gateway) poolable() int {
	if g == nil || len(g.queue) > 0 {
		return 0
	}
	conf, going := g.conf.Load(), int(g.going.Load())
	most := int(conf.PoolBelow * float64(conf.Connections))
	if going == 0 {
		return max(1, most)
	}
	return most - going
}
