//go:build linux

package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"weir"
	"weir/throttle/quota"
)

// decisions is Q1: one decision of an account among 100,000 under one requests policy, against a golang.org/x/time/rate
// limiter for each key in a map of 256 shards. Both are given the time, and the same keys in the same order. The
// upstream accepts every account, as it does those of customers.
func decisions(o options) ([]figure, error) {
	const keys = 100_000
	rounds, n := 41, 400_000
	if o.quick {
		rounds, n = 1, keys
	}
	accounts := make([]string, keys)
	for i := range accounts {
		accounts[i] = fmt.Sprintf("account-%06d", i)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(keys, func(i, j int) { accounts[i], accounts[j] = accounts[j], accounts[i] })
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

	peer := newLimiters(1000)
	now := start // time goes on from round to round
	sides := []func(){func() {
		for i := range n {
			now = now.Add(time.Microsecond)
			peer.allow(accounts[i%keys], now)
		}
	}}
	var failed error
	windows := []quota.WindowKind{quota.Fixed, quota.Sliding, quota.GCRA}
	for _, w := range windows {
		q, err := quota.New(quota.Options{Policies: []quota.Policy{
			{Name: "per-second", Limit: quota.Count(1000), Period: weir.Period{Length: time.Second}, Window: w}}})
		if err != nil {
			return nil, err
		}
		var ev weir.Event
		var a weir.Answer
		now := start
		sides = append(sides, func() {
			for i := range n {
				now = now.Add(time.Microsecond)
				ev.Account, ev.Time = accounts[i%keys], now
				a.Clear()
				if err := q.Judge(context.Background(), &ev, &a); err != nil || a.Verdict != weir.Admit {
					failed = fmt.Errorf("%s: %s, %v", w, a.Explain(), err)
					return
				}
				q.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true, Status: http.StatusOK})
			}
		})
	}
	interleaved(1, sides...) // every account is known before the first round
	times := interleaved(rounds, sides...)
	var figures []figure
	for i, w := range windows {
		ratio := float64(times[i+1]) / float64(times[0])
		allocs := allocations(sides[i+1]) / uint64(n)
		figures = append(figures, figure{
			what: fmt.Sprintf("quota, one decision and its settlement, %d accounts, window %s, against x/time/rate "+
				"in 256 shards", keys, w),
			target: "≤ 0.9 × its time, 0 allocations",
			got: fmt.Sprintf("%.2f × (%d ns against %d ns), %d allocations", ratio,
				times[i+1].Nanoseconds()/int64(n), times[0].Nanoseconds()/int64(n), allocs),
			met: ratio <= 0.9 && allocs == 0,
		})
	}
	return figures, failed
}

// limiters are what people write themselves: a limiter for each key, behind a lock for each part of the map.
type limiters struct {
	limit  float64
	seed   maphash.Seed
	shards [256]struct {
		sync.Mutex
		m map[string]*rate.Limiter
	}
}

func newLimiters(limit float64) *limiters {
	l := &limiters{limit: limit, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].m = map[string]*rate.Limiter{}
	}
	return l
}

func (l *limiters) allow(key string, now time.Time) bool {
	s := &l.shards[maphash.String(l.seed, key)%256]
	s.Lock()
	limiter := s.m[key]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Limit(l.limit), int(l.limit))
		s.m[key] = limiter
	}
	s.Unlock()
	return limiter.AllowN(now, 1)
}
