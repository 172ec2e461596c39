//go:build linux

package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"weir/lab/simulate"
	"weir/throttle/stamp"
)

// when is the time of all measurements of stamps and mail, which are given the time.
var when = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// question is the challenge that the benchmarks of stamps ask for.
func question(a stamp.Algorithm, w stamp.Work) stamp.Ask {
	return stamp.Ask{Algorithm: a, Work: w, Lifetime: 5 * time.Minute, Client: "c-1234567890abcdef",
		Message: stamp.ID("GET", "https://example.com/", "")}
}

func wanted(a stamp.Ask) stamp.Demand { return stamp.Demand{Client: a.Client, Message: a.Message} }

// paid issues so many challenges and pays them.
func paid(o *stamp.Issuer, a stamp.Ask, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = try(stamp.Solve(context.Background(), try(o.Issue(when, a)), stamp.SolveOptions{}))
	}
	return all
}

// issuing is S1: a challenge, against hmac.New and a sum over as many bytes.
func issuing(t *trial) []figure {
	rounds, n := pick(t, 21, 1), pick(t, 100_000, 1000)
	issuer := stamp.NewIssuer(stamp.Parts{})
	a := question(stamp.SHA256K, 1<<20)
	// fixed fields, three lengths, two ids
	secret, raw := make([]byte, 32), make([]byte, 44+3+len(a.Client)+len(a.Message))
	rand.Read(secret)
	ours := func() {
		for range n {
			try(issuer.Issue(when, a))
		}
	}
	bare := func() {
		for range n {
			h := hmac.New(sha256.New, secret)
			h.Write(raw)
			h.Sum(nil)
		}
	}
	times := interleaved(rounds, ours, bare)
	return []figure{{"issuing a challenge (sha256-k), against hmac.New and a sum over the same bytes; nothing is stored",
		[]value{most(1.2, float64(times[0])/float64(times[1]), "%.2f ×")}, fmt.Sprintf("%.0f ns", each(times[0], n))}}
}

// refusing is S2: bad stamps on one core.
func refusing(t *trial) (figures []figure) {
	rounds, n, ctx := pick(t, 11, 1), pick(t, 200_000, 1000), context.Background()
	for _, of := range []stamp.Algorithm{stamp.SHA256K, stamp.EQS60} {
		issuer := stamp.NewIssuer(stamp.Parts{})
		a := question(of, 64)
		all := paid(issuer, a, 2)
		forged, spent := []byte(all[0]), all[1]
		forged[20] ^= 1
		try(issuer.Verify(ctx, when, spent, wanted(a)))
		refuse := func(s string, want error) func() {
			return func() {
				for range n {
					if _, err := issuer.Verify(ctx, when, s, wanted(a)); !errors.Is(err, want) {
						check(fmt.Errorf("%v, want %v", err, want))
					}
				}
			}
		}
		times := interleaved(rounds, refuse(string(forged), stamp.ErrForged), refuse(spent, stamp.ErrReplayed))
		for i, what := range []string{"forged", "replayed"} {
			figures = append(figures, figure{fmt.Sprintf("refusing a %s stamp (%s), one core", what, of),
				[]value{least(1, float64(n)/times[i].Seconds()/1e6, "%.2f M/s")}, ""})
		}
	}
	return figures
}

// accepting is S3: good stamps on one core, each for the first time.
func accepting(t *trial) []figure {
	rounds, n := pick(t, 41, 1), pick(t, 20_000, 500)
	// A stamp of eqs60 takes 20 ms to make, so there are few. Each issuer takes all of them.
	plain, eqs := acceptedRate(stamp.SHA256K, rounds, n, 1), acceptedRate(stamp.EQS60, rounds, max(n/40, 20), 40)
	return []figure{
		{"accepting a stamp (sha256-k, 16 parts), one core, each for the first time",
			[]value{least(300, plain/1e3, "%.0f k/s")}, ""},
		{"… eqs60, 16 solutions", []value{least(300, eqs/1e3, "%.0f k/s")}, ""},
	}
}

// acceptedRate is how many stamps a second are accepted by one core, the median of some rounds. In each round some
// issuers take n stamps, each issuer with an empty memory of what was spent.
func acceptedRate(of stamp.Algorithm, rounds, n, issuers int) float64 {
	a := question(of, 16)
	issuer := stamp.NewIssuer(stamp.Parts{})
	all := paid(issuer, a, n)
	times := []time.Duration{}
	for range rounds {
		var took time.Duration
		for range issuers {
			fresh := stamp.NewIssuer(stamp.Parts{Keys: issuer.Parts().Keys})
			took += interleaved(1, func() {
				for _, s := range all {
					try(fresh.Verify(context.Background(), when, s, wanted(a)))
				}
			})[0]
		}
		times = append(times, took)
	}
	return float64(n*issuers) / median(times).Seconds()
}

// duplicates is S6: the same stamp a million times, from all sides at once.
func duplicates(t *trial) (figures []figure) {
	const sides = 16
	each := pick(t, 1_000_000/sides, 1000)
	for _, of := range []stamp.Algorithm{stamp.SHA256K, stamp.EQS60} {
		issuer := stamp.NewIssuer(stamp.Parts{})
		a := question(of, 64)
		one := paid(issuer, a, 1)[0]
		var accepted atomic.Int64
		together(sides, func(int) error {
			for range each {
				if _, err := issuer.Verify(context.Background(), when, one, wanted(a)); err == nil {
					accepted.Add(1)
				}
			}
			return nil
		})
		figures = append(figures, figure{fmt.Sprintf("%d duplicates racing (%s): accepted more than once", sides*each, of),
			[]value{none(int(accepted.Load() - 1))}, ""})
	}
	return figures
}

const stamps = "./throttle/stamp"

// luck is S5.
func luck(t *trial) []figure {
	sha := t.logged(stamps, "^TestLuck$", `p99 / mean = ([0-9.]+)`)[0]
	eqs := t.logged(stamps, "^TestEqsLuck$", `(?s)16 bits: p99 / mean = ([0-9.]+).*5000000: p99 / mean = ([0-9.]+)`)
	return []figure{
		{"work to solve (sha256-k), p99 / mean of 10⁶ draws", []value{most(1.7, sha, "%.3f")}, ""},
		{"… (eqs60), of 2·10⁵ draws: at the least work / at the most work of a phone in 5 s",
			[]value{most(1.7, eqs[0], "%.3f"), most(1.7, eqs[1], "%.3f")}, ""},
	}
}

// solving is S4: one worker of the browser's solver, against awaiting WebCrypto for each hash, in a real Chromium; and
// for eqs60 against Go.
func solving(t *trial) []figure {
	sha := t.benchmark(stamps, "Browser", pick(t, "5x", "1x")).of("Browser")
	eqs := t.benchmark(stamps, "EqsBrowser", pick(t, "5x", "1x")).of("EqsBrowser")
	return []figure{
		{"browser's solver (sha256-k), one worker, against awaiting WebCrypto for each hash",
			[]value{least(30, sha["times-WebCrypto"], "%.1f ×")}, fmt.Sprintf("%.2f M hashes/s", sha["hashes/s"]/1e6)},
		{"browser's solver (eqs60) in WebAssembly, one worker, time for a counter against Go on one core",
			[]value{most(2, eqs["wasm/go"], "%.2f ×")}, fmt.Sprintf("%.2f ms against %.2f ms; %.2f × in plain JavaScript",
				eqs["ms-wasm"], eqs["ms-go"], eqs["js/go"])},
	}
}

// logarithms is S8: what the solvers of dlog take, in group operations over 200 seeds, against the work declared.
func logarithms(t *trial) []figure {
	declared := func(solver string) float64 {
		return t.logged(stamps+"/classic", "^TestCost$/^"+solver+"$", `([0-9.]+) of the declared work`)[0]
	}
	return []figure{
		{"`dlog` by baby steps and giant steps, group operations / declared work, 200 seeds",
			[]value{within(0.85, 1, declared("baby-step_giant-step"), "%.3f")}, ""},
		{"… by kangaroos", []value{least(0.8, declared("kangaroo"), "%.3f")}, ""},
	}
}

// steering is S7: the load becomes ten-fold at once, from a flood that pays what is asked as far as its processors can,
// beside people. simulate.Flood plays it, with the real throttle and the real lanes: how long until the stamped lane is
// back at its target, and how long after the end nothing is asked any more, to the second.
func steering(t *trial) []figure {
	const target = 200 * time.Millisecond
	o := simulate.FloodOptions{
		Concurrent: 64, Service: 50 * time.Millisecond,
		Stamps: stamp.Options{Algorithm: t.algorithm, Covers: 1}.WithDefaults(),
		People: 200, // a sixth of what the service can do
		From:   5 * time.Second, Until: 35 * time.Second, For: 125 * time.Second,
	}
	o.Paying = 10 * o.Capacity()
	o.Hashes = o.Paying * float64(o.Stamps.First) // enough for all of it, at the first price
	study := try(simulate.Flood(o))
	back, later := math.Inf(1), 0.0
	for _, p := range study.Points {
		at := float64(p.Second) - study.From
		switch {
		case at <= 0 || float64(p.Second) > study.Until:
		case !math.IsInf(back, 1):
			later = max(later, p.Delay)
		case p.Delay <= target.Seconds() && at > 1: // in the first second it rises
			back = at
		}
	}
	dormant := study.Dormant
	if dormant < 0 {
		dormant = math.Inf(1)
	}
	return []figure{
		{fmt.Sprintf("ten-fold step of paying load (%s): stamped lane back at its target of %s (work rose to 2^%.1f)",
			t.algorithm, target, study.Peak.Bits()), []value{most(5, back, "%.0f s")},
			fmt.Sprintf("later %.2f s at most", later)},
		{"… nothing is asked any more, after its end", []value{most(60, dormant, "%.0f s")}, ""},
	}
}
