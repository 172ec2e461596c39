//go:build linux

package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"weir"
	"weir/admission"
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

// duplicates is S6: the test that uses a stamp a million times, from all sides at once.
func duplicates(t *trial) []figure {
	t.long()
	more := none(0)
	if out, err := t.goTest(stamps, "-run", "^TestVerifyRace$"); err != nil {
		more.text, more.met = "some", false
		fmt.Fprintf(os.Stderr, "S6: %s", out)
	}
	return []figure{{pick(t, "a million", "16,000") + " duplicates racing (sha256-k, eqs60): accepted more than once",
		[]value{more}, ""}}
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

// steering is S7: the load becomes ten-fold at once, from clients that pay what is asked as long as their processors
// can. Simulated in steps of a millisecond, with the real throttle and the real lanes: how long until the stamped lane
// is back at its target, and how long after the end nothing is asked any more.
func steering(t *trial) []figure {
	back, dormant, peak := tenfold(stamp.Options{Algorithm: t.algorithm})
	return []figure{
		{fmt.Sprintf("ten-fold step of paying load (%s): stamped lane back at its target of 200ms (work rose to 2^%.1f)",
			t.algorithm, peak.Bits()), []value{most(5, back.Seconds(), "%.1f s")}, ""},
		{"… nothing is asked any more, after its end", []value{most(60, dormant.Seconds(), "%.1f s")}, ""},
	}
}

// The scene of S7.
const (
	places    = 64                    // of the upstream
	service   = 50 * time.Millisecond // each
	people    = 200.0                 // requests a second that are always there: a sixth of what can be done
	browser   = 3e6                   // operations a second of one solver, of sha256-k or eqs60
	attack    = 30 * time.Second      // how long
	step      = time.Millisecond
	targetLag = 200 * time.Millisecond
)

// A journey is a request on its way through the lanes.
type journey struct {
	hold weir.Hold
	turn *weir.Turn
	ends time.Time
}

// A lane is the simulation of S7.
type lane struct {
	now     time.Time
	lanes   *admission.Lanes
	taker   *stamp.Throttle
	waiting []*journey
	inside  []*journey
	owed    float64
	came    int
}

func tenfold(o stamp.Options) (back, dormant time.Duration, peak stamp.Work) {
	s := &lane{now: when, lanes: try(admission.New(admission.Options{Concurrent: places, PerClient: 10_000}, when)),
		taker: try(stamp.NewThrottle(o, when, nil))}
	s.lanes.Alarm(func(time.Time) {})
	capacity := float64(places) / service.Seconds()
	first := float64(o.WithDefaults().First)
	budget := 10 * capacity * first // hashes a second: ten times what can be done, at the first price
	begin, end := when.Add(5*time.Second), when.Add(5*time.Second+attack)
	works := make([]stamp.Work, 0, 100_000) // asked for, by the step
	var over, quiet time.Time
	for ; s.now.Before(end.Add(90 * time.Second)); s.now = s.now.Add(step) {
		s.settle()
		s.lanes.Advance(s.now)
		share, delay := s.lanes.Load(s.now)
		work := s.taker.Observe(weir.Load{Of: "gate", Share: share, Delay: delay}, s.now)
		works = append(works, work)
		s.lanes.Asked(uint64(work))
		peak = max(peak, work)
		rate, paid := people, work
		if s.now.After(begin) && s.now.Before(end) {
			// A client that comes now pays what was asked when it began to solve.
			asked := 0.0
			for i, w := range slices.Backward(works) {
				if ago := len(works) - 1 - i; time.Duration(ago)*step >=
					time.Duration(float64(w)/browser*float64(time.Second)) {
					asked, paid = float64(w), w
					break
				}
			}
			rate += min(10*capacity, budget/max(asked, first))
			if delay > targetLag {
				over = s.now
			}
		}
		for s.owed += rate * step.Seconds(); s.owed >= 1; s.owed-- {
			s.arrive(paid)
		}
		if s.now.After(end) && work > 0 {
			quiet = s.now
		}
	}
	return max(over.Sub(begin), 0), max(quiet.Sub(end), 0), peak
}

// arrive lets a request in that has paid what was asked. Where nothing is asked, it has paid nothing and goes to the
// general pool.
func (s *lane) arrive(work stamp.Work) {
	s.came++ // each is from a network of its own: one client alone would not affect the others
	ev := weir.Event{Time: s.now,
		Source: netip.AddrFrom4([4]byte{10, byte(s.came >> 16), byte(s.came >> 8), byte(s.came)})}
	ev.Purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
		return weir.Paid{Work: uint64(work)}, nil
	})
	ev.Purse.Open(context.Background(), &ev)
	var a weir.Answer
	check(s.lanes.Judge(context.Background(), &ev, &a))
	j := &journey{hold: a.Hold}
	a.Clear()
	s.lanes.Enter(&j.hold, s.now, &a)
	switch a.Verdict {
	case weir.Admit:
		j.ends = s.now.Add(service)
		s.inside = append(s.inside, j)
	case weir.Wait:
		j.turn = a.Turn
		s.waiting = append(s.waiting, j)
	default:
		s.lanes.Settle(j.hold, weir.Outcome{Time: s.now})
	}
}

// settle ends requests that are done, and begins those that were called.
func (s *lane) settle() {
	for len(s.inside) > 0 && !s.inside[0].ends.After(s.now) {
		s.lanes.Settle(s.inside[0].hold, weir.Outcome{Time: s.now, Done: true})
		s.inside = s.inside[1:]
	}
	waiting := s.waiting[:0]
	for _, j := range s.waiting {
		select {
		case <-j.turn.Called():
			if j.turn.Refused() == weir.NoReason {
				j.ends = s.now.Add(service)
				s.inside = append(s.inside, j)
			} else {
				s.lanes.Settle(j.hold, weir.Outcome{Time: s.now})
			}
		default:
			waiting = append(waiting, j)
		}
	}
	s.waiting = waiting
}
