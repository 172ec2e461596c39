//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"weir"
	"weir/throttle/bloom"
)

// The configuration of the limiters of B1 to B3. No source comes near the limit.
const (
	grantRate      = 1000 // a second
	grantBurst     = 1000
	grantAttackers = 100_000 // the default: tables of 1 MB
)

const million = 1_000_000

// begin is a time with a monotonic reading, as clocks give it.
var begin = time.Now()

// oneGrant is B1: one event of a source among a million that keep to their limit, against a golang.org/x/time/rate
// limiter for each source in a map of 256 shards. Both are given the time, and the same sources in the same order.
func oneGrant(t *trial) []figure {
	const n = million
	l, peer := grantLimiter(grantAttackers), newLimiters[uint32](grantRate, grantBurst)
	for i := range million { // every source is known before the first round
		allowNetwork(peer, network(i), begin)
	}
	f := feed{events: draw(1, million, n)}
	now, refused := begin, int64(0)
	sides := []func(){
		func() { refused += f.judge(l) },
		func() {
			for _, source := range f.events {
				now = now.Add(tick)
				if !allowNetwork(peer, source, now) {
					refused++
				}
			}
		},
	}
	times, busy := t.grantTimes(sides...)
	allocs := allocations(sides[0], n)
	noneRefused(refused)
	ratio := float64(times[1]) / float64(times[0])
	return []figure{{fmt.Sprintf("Bloom limiter, one grant, %d sources, table for %d attackers, against x/time/rate "+
		"in 256 shards", million, grantAttackers),
		[]value{least(13, ratio, "%.1f × faster"), most(0, allocs, "%.0f allocations")},
		fmt.Sprintf("%.0f ns against %.0f ns%s", each(times[0], n), each(times[1], n), busy)}}
}

// twoGrants is B2: the events of B1 by two goroutines against one. For comparison, the best that two goroutines could
// do: with a limiter for each, they share nothing. And the cost of sharing alone: a keyed hash and one addition in as
// much memory. A table that fits into the nearest caches of one core is fastest for a single goroutine; so there is a
// larger one too.
func twoGrants(t *trial) (figures []figure) {
	for _, attackers := range []int64{grantAttackers, 412_000} {
		var l [3]*careful
		for i := range l {
			l[i] = grantLimiter(attackers)
		}
		f := feed{events: draw(1, million, million)}
		words := make([]uint64, l[0].Stats().Bytes/2/8) // one of two tables
		refused := int64(0)
		times, busy := t.grantTimes(
			func() { refused += f.judge(l[0]) },
			func() { refused += f.judge(l[0], l[0]) },
			func() { refused += f.judge(l[1], l[2]) },
			func() { f.add(words, 1) },
			func() { f.add(words, 2) })
		noneRefused(refused)
		over := func(i, j int) float64 { return float64(times[i]) / float64(times[j]) }
		figures = append(figures,
			figure{fmt.Sprintf("… two goroutines against one, %d sources, table for %d attackers", million, attackers),
				[]value{least(1.7, over(0, 1), "%.2f ×")},
				fmt.Sprintf("%.2f × with a limiter for each; %.2f × for bare counters%s", over(0, 2), over(3, 4), busy)})
	}
	return figures
}

func noneRefused(n int64) {
	if n > 0 {
		check(errors.New("a source that keeps to its limit was refused"))
	}
}

func (t *trial) grantTimes(sides ...func()) (times []time.Duration, busy string) {
	times = interleaved(1, sides...) // all memory has been touched before the first round
	if t.quick {
		return times, ""
	}
	return undisturbed(21, sides...)
}

// A careful limiter is advanced when that is due.
type careful struct {
	*bloom.Limiter
	due atomic.Int64 // in time since begin
}

func (c *careful) care(now time.Time) {
	if due := c.due.Load(); now.Sub(begin) >= time.Duration(due) && c.due.CompareAndSwap(due, 1<<62) {
		c.due.Store(int64(c.Advance(now).Sub(begin)))
	}
}

func grantLimiter(attackers int64) *careful {
	return &careful{Limiter: try(bloom.New(bloom.Options{Rate: weir.Rate{Count: grantRate, Per: time.Second},
		Burst: grantBurst, Attackers: attackers}, begin))}
}

// network returns an address in the n-th of 2²⁴ IPv4 networks, in an order that jumps all over them.
func network(n int) (a [4]byte) {
	binary.BigEndian.PutUint32(a[:], uint32(n)*0x9e3779b1<<8|1)
	return a
}

// draw returns the sources of events, each from one of so many networks at random.
func draw(seed uint64, networks, events int) [][4]byte {
	r := rand.New(rand.NewPCG(seed, seed))
	who := make([][4]byte, events)
	for i := range who {
		who[i] = network(r.IntN(networks))
	}
	return who
}

// A feed gives the same events again and again.
type feed struct {
	events [][4]byte
	passed time.Duration // goes on from round to round
}

const (
	// between two events: about as long as one takes, so that sweeps have their real share
	tick  = 50 * time.Nanosecond
	chunk = 4096 // events that a goroutine takes at a time
)

// share divides the events among goroutines, a chunk at a time. from is the number of the first event of a chunk.
func (f *feed) share(goroutines int, work func(n, from int, events [][4]byte)) {
	var taken atomic.Int64
	together(goroutines, func(n int) error {
		for {
			from := int(taken.Add(chunk)) - chunk
			if from >= len(f.events) {
				return nil
			}
			work(n, from, f.events[from:min(from+chunk, len(f.events))])
		}
	})
}

// judge lets each limiter, which may be the same one, judge a part of the events on a goroutine of its own. It returns
// how many events were refused.
func (f *feed) judge(limiters ...*careful) int64 {
	var refused atomic.Int64
	f.share(len(limiters), func(n, from int, events [][4]byte) {
		var ev weir.Event
		var a weir.Answer
		l, now := limiters[n], begin.Add(f.passed+time.Duration(from)*tick)
		l.care(now)
		for _, source := range events {
			now = now.Add(tick)
			ev.Time, ev.Source = now, netip.AddrFrom4(source)
			a.Clear()
			if err := l.Judge(context.Background(), &ev, &a); err != nil || a.Verdict != weir.Admit {
				refused.Add(1)
			}
		}
	})
	f.passed += time.Duration(len(f.events)) * tick
	return refused.Load()
}

// add counts all events by so many goroutines, and decides nothing.
func (f *feed) add(words []uint64, goroutines int) {
	f.share(goroutines, func(_, _ int, events [][4]byte) {
		for _, source := range events {
			h := bloom.Key{1, 2}.Hash(bloom.NetworkV4(source, 24))
			atomic.AddUint64(&words[uint64(uint32(h))*uint64(len(words))>>32], 1)
		}
	})
}

// limiters are what people write themselves: a golang.org/x/time/rate limiter for each key, made on first use, behind a
// lock for each part of the map.
type limiters[K comparable] struct {
	limit, burst int
	shards       [256]struct {
		sync.Mutex
		m map[K]*rate.Limiter
	}
}

func newLimiters[K comparable](limit, burst int) *limiters[K] {
	l := &limiters[K]{limit: limit, burst: burst}
	for i := range l.shards {
		l.shards[i].m = map[K]*rate.Limiter{}
	}
	return l
}

// allow asks the limiter of a key, which is in the part of the map that hash chooses.
func (l *limiters[K]) allow(key K, hash uint64, now time.Time) bool {
	s := &l.shards[hash%256]
	s.Lock()
	limiter := s.m[key]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Limit(l.limit), l.burst)
		s.m[key] = limiter
	}
	s.Unlock()
	return limiter.AllowN(now, 1)
}

// allowNetwork asks the limiter of a /24. A network is a number here, which is faster than a netip.Prefix or a text.
func allowNetwork(l *limiters[uint32], source [4]byte, now time.Time) bool {
	network := binary.BigEndian.Uint32(source[:]) >> 8
	return l.allow(network, uint64(network), now)
}

// each is the time of one of n, in nanoseconds.
func each(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / float64(n) }
