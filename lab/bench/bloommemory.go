//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"time"

	"weir"
)

// heapOfSources is B3: the memory that sources take which have all asked once. Ours is measured while the key rotates,
// when there are two tables on every level.
func heapOfSources(o options) ([]figure, error) {
	cases := []struct {
		sources int
		most    float64 // of the peer's memory
	}{{million, 1. / 10}, {10 * million, 1. / 100}}
	var figures []figure
	for _, c := range cases {
		if o.quick {
			c.sources /= 10
		}
		before := heap()
		l, err := grantLimiter(grantAttackers)
		if err != nil {
			return nil, err
		}
		ev, a := weir.Event{Time: begin, Source: netip.AddrFrom4(network(0))}, weir.Answer{}
		if err := l.Judge(context.Background(), &ev, &a); err != nil { // a table that nobody asks keeps its key
			return nil, err
		}
		l.Advance(begin.Add(10*time.Minute - time.Second)) // the next tables are made and charged
		ev.Time = begin.Add(10 * time.Minute)
		for i := range c.sources {
			ev.Source = netip.AddrFrom4(network(i))
			a.Clear()
			if err := l.Judge(context.Background(), &ev, &a); err != nil || a.Verdict != weir.Admit {
				return nil, errors.New("a source that asks once was refused")
			}
		}
		ours := heap() - before
		if planned := l.Stats().Bytes; ours < planned {
			return nil, fmt.Errorf("%d bytes of heap, though the tables have %d", ours, planned)
		}
		runtime.KeepAlive(l)

		before = heap()
		peer := newNetworkLimiters(grantRate, grantBurst)
		for i := range c.sources {
			peer.allow(netip.AddrFrom4(network(i)), begin)
		}
		theirs := heap() - before
		runtime.KeepAlive(peer)
		peer = nil
		debug.FreeOSMemory()

		ratio := float64(theirs) / float64(ours)
		figures = append(figures, figure{
			what: fmt.Sprintf("… heap with %d sources, table for %d attackers, against the same", c.sources,
				grantAttackers),
			target: fmt.Sprintf("≤ 1/%.0f", 1/c.most),
			got:    fmt.Sprintf("1/%.0f (%.1f MB against %.0f MB)", ratio, float64(ours)/1e6, float64(theirs)/1e6),
			met:    1/ratio <= c.most,
		})
	}
	return figures, nil
}

// heap is the memory of everything that is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found to have finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
