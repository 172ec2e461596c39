//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"time"

	"weir"
)

// heapOfSources is B3: the memory of sources that have all asked once. Ours is measured while the key rotates, when
// there are two tables on every level.
func heapOfSources(t *trial) (figures []figure) {
	cases := []struct {
		sources int
		most    float64 // of the peer's memory
	}{{million, 1. / 10}, {10 * million, 1. / 100}}
	for _, c := range cases {
		if t.quick {
			c.sources /= 10
		}
		before := heap()
		l := grantLimiter(grantAttackers)
		ev, a := weir.Event{Time: begin, Source: netip.AddrFrom4(network(0))}, weir.Answer{}
		check(l.Judge(context.Background(), &ev, &a))      // a table that nobody asks keeps its key
		l.Advance(begin.Add(10*time.Minute - time.Second)) // the next tables are made and charged
		ev.Time = begin.Add(10 * time.Minute)
		for i := range c.sources {
			ev.Source = netip.AddrFrom4(network(i))
			a.Clear()
			if err := l.Judge(context.Background(), &ev, &a); err != nil || a.Verdict != weir.Admit {
				noneRefused(1)
			}
		}
		ours := heap() - before
		if planned := l.Stats().Bytes; ours < planned {
			check(fmt.Errorf("%d bytes of heap, though the tables have %d", ours, planned))
		}
		runtime.KeepAlive(l)

		before = heap()
		peer := newLimiters[uint32](grantRate, grantBurst)
		for i := range c.sources {
			allowNetwork(peer, network(i), begin)
		}
		theirs := heap() - before
		runtime.KeepAlive(peer)
		peer = nil
		debug.FreeOSMemory()

		ratio := float64(theirs) / float64(ours)
		figures = append(figures, figure{fmt.Sprintf("… heap with %d sources, table for %d attackers, against the same",
			c.sources, grantAttackers), fmt.Sprintf("≤ 1/%.0f", 1/c.most),
			fmt.Sprintf("1/%.0f (%.1f MB against %.0f MB)", ratio, float64(ours)/1e6, float64(theirs)/1e6),
			1/ratio <= c.most})
	}
	return figures
}

// heap is the memory of everything that is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found to have finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
