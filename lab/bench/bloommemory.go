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
	"weir/throttle/bloom"
)

// heapOfSources is B3: the memory of sources that have all asked once. Ours is measured while the key rotates, when
// there are two tables on every level.
func heapOfSources(t *trial) (figures []figure) {
	cases := []struct {
		sources int
		least   float64 // times the memory that the peer takes
	}{{million, 10}, {10 * million, 100}}
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
			c.sources, grantAttackers), []value{least(c.least, ratio, "%.0f × smaller")},
			fmt.Sprintf("%.1f MB against %.0f MB", float64(ours)/1e6, float64(theirs)/1e6)})
	}
	return figures
}

// heap is the memory that is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found to have finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// idleTables is B8: the processor time that a limiter takes by itself, as a share of a core. A thousand networks have
// asked, and then none does for an hour. For comparison, a thousand networks that ask once a second each for ten
// minutes: what the limiter takes beside judging them. Time is passed in; only the calls that are due are measured.
func idleTables(t *trial) (figures []figure) {
	for _, attackers := range []int64{million, 10 * million} {
		if t.quick {
			attackers /= 100
		}
		l := try(bloom.New(bloom.Options{Rate: weir.Rate{Count: 100, Per: time.Second}, Burst: 200,
			Attackers: attackers}, begin))
		now, due := begin, begin
		// pass lets time pass and returns the processor time of what is due in it.
		pass := func(d time.Duration) (spent time.Duration) {
			for end := now.Add(d); now.Before(end); {
				if now = end; due.Before(end) {
					now = due
				}
				if !due.After(now) {
					before := processTime()
					due = l.Advance(now)
					spent += processTime() - before
				}
			}
			return spent
		}
		var ev weir.Event
		var a weir.Answer
		var busy time.Duration
		for range 600 {
			for i := range 1000 {
				a.Clear()
				ev.Time, ev.Source = now, netip.AddrFrom4(network(i))
				if err := l.Judge(context.Background(), &ev, &a); err != nil || a.Verdict != weir.Admit {
					noneRefused(1)
				}
			}
			busy += pass(time.Second)
		}
		idle := pass(time.Hour)
		figures = append(figures,
			figure{fmt.Sprintf("processor time of a limiter for %d attackers that nobody asks for an hour", attackers),
				[]value{most(0.1, 100*idle.Seconds()/time.Hour.Seconds(), "%.4f %% of a core")},
				fmt.Sprintf("with 1,000 networks that ask once a second: %.2f %%", 100*busy.Seconds()/600)})
	}
	return figures
}
