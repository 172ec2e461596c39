//go:build linux

package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"time"

	"weir"
	"weir/throttle/quota"
)

// decisions is Q1: one decision of an account among 100,000 under one requests policy, against a golang.org/x/time/rate
// limiter for each key in a map of 256 shards. Both are given the time, and the same keys in the same order. The
// upstream accepts every account, as it does those of customers.
func decisions(t *trial) (figures []figure) {
	const keys = 100_000
	rounds, n := pick(t, 41, 1), pick(t, 400_000, keys)
	accounts, start := shuffledAccounts(keys), time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	seed := maphash.MakeSeed()
	peer := newLimiters[string](1000, 1000)
	now := start // time goes on from round to round
	sides := []func(){func() {
		for i := range n {
			now = now.Add(time.Microsecond)
			account := accounts[i%keys]
			peer.allow(account, maphash.String(seed, account), now)
		}
	}}
	windows := []quota.WindowKind{quota.Fixed, quota.Sliding, quota.GCRA}
	for _, w := range windows {
		q := try(quota.New(quota.Options{Policies: []quota.Policy{
			{Name: "per-second", Limit: quota.Count(1000), Period: weir.Period{Length: time.Second}, Window: w}}}))
		now := start
		sides = append(sides, func() { admitAll(q, accounts, n, &now) })
	}
	interleaved(1, sides...) // every account is known before the first round
	times := interleaved(rounds, sides...)
	for i, w := range windows {
		figures = append(figures, figure{fmt.Sprintf("quota, one decision and its settlement, %d accounts, window %s, "+
			"against x/time/rate in 256 shards", keys, w),
			[]value{most(1.3, float64(times[i+1])/float64(times[0]), "%.2f × its time"),
				most(0, allocations(sides[i+1], n), "%.0f allocations")},
			fmt.Sprintf("%.0f ns against %.0f ns", each(times[i+1], n), each(times[0], n))})
	}
	return figures
}

// shuffledAccounts are names in an order that no cache foresees.
func shuffledAccounts(n int) []string {
	accounts := make([]string, n)
	for i := range accounts {
		accounts[i] = fmt.Sprintf("account-%06d", i)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { accounts[i], accounts[j] = accounts[j], accounts[i] })
	return accounts
}

// admitAll makes n decisions, a microsecond apart, all of which admit.
func admitAll(q *quota.Quota, accounts []string, n int, now *time.Time) {
	var ev weir.Event
	var a weir.Answer
	for i := range n {
		*now = now.Add(time.Microsecond)
		ev.Account, ev.Time = accounts[i%len(accounts)], *now
		a.Clear()
		if err := q.Judge(context.Background(), &ev, &a); err != nil || a.Verdict != weir.Admit {
			check(fmt.Errorf("%s, %v", a.Explain(), err))
		}
		q.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true, Status: http.StatusOK})
	}
}

// sharedDecisions is Q1f: what an admitted request pays for being told to the other nodes of a farm. Each decision is
// about another account, so that each marks something to be told.
func sharedDecisions(t *trial) (figures []figure) {
	const keys = 100_000
	accounts := shuffledAccounts(keys)
	for _, w := range []quota.WindowKind{quota.Fixed, quota.Sliding, quota.GCRA} {
		var sides []func()
		for _, farm := range []bool{false, true} {
			q := try(quota.New(quota.Options{Policies: []quota.Policy{
				{Name: "per-second", Limit: quota.Count(1000), Period: weir.Period{Length: time.Second}, Window: w}}}))
			now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
			sides = append(sides, func() { admitAll(q, accounts, keys, &now) })
			if farm {
				shared := q.Share("a", 1, func([]byte) error { return nil })
				sides = append(sides, func() { shared.Advance(now) })
			}
		}
		interleaved(1, sides...) // every account is known before the first round
		times := interleaved(pick(t, 101, 1), sides...)
		figures = append(figures, figure{fmt.Sprintf("quota, one decision and its settlement, %d accounts in turns, "+
			"window %s, farm: broadcast against local", keys, w),
			[]value{most(1.1, float64(times[1])/float64(times[0]), "%.2f × its time")},
			fmt.Sprintf("%.0f ns against %.0f ns; beside it, %.0f ns to tell the others", each(times[1], keys),
				each(times[0], keys), each(times[2], keys))})
	}
	return figures
}
