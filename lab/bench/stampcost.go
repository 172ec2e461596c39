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
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
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
func paid(o *stamp.Office, a stamp.Ask, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = try(stamp.Solve(context.Background(), try(o.Issue(when, a)), stamp.SolveOptions{}))
	}
	return all
}

// issuing is S1: a challenge, against hmac.New and a sum over as many bytes.
func issuing(t *trial) []figure {
	rounds, n := 21, 100_000
	if t.quick {
		rounds, n = 1, 1000
	}
	office := stamp.NewOffice(stamp.Parts{})
	a := question(stamp.SHA256K, 1<<20)
	// fixed fields, three lengths, two ids
	secret, raw := make([]byte, 32), make([]byte, 44+3+len(a.Client)+len(a.Message))
	rand.Read(secret)
	ours := func() {
		for range n {
			try(office.Issue(when, a))
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
	ratio := float64(times[0]) / float64(times[1])
	return []figure{{"issuing a challenge (sha256-k), against hmac.New and a sum over the same bytes; nothing is stored", "≤ 1.2 ×",
		fmt.Sprintf("%.2f × (%.0f ns)", ratio, each(times[0], n)), ratio <= 1.2}}
}

// refusing is S2, accepting S3: bad stamps, and good ones, on one core.
func refusing(t *trial) []figure {
	rounds, n := 11, 200_000
	if t.quick {
		rounds, n = 1, 1000
	}
	return append(refusedOf(stamp.SHA256K, rounds, n), refusedOf(stamp.EQS60, rounds, n)...)
}

// refusedOf measures how many stamps of an algorithm are refused a second.
func refusedOf(of stamp.Algorithm, rounds, n int) []figure {
	office := stamp.NewOffice(stamp.Parts{})
	a := question(of, 64)
	all := paid(office, a, 2)
	forged, spent := []byte(all[0]), all[1]
	forged[20] ^= 1
	ctx := context.Background()
	try(office.Verify(ctx, when, spent, wanted(a)))
	refuse := func(s string, want error) func() {
		return func() {
			for range n {
				if _, err := office.Verify(ctx, when, s, wanted(a)); !errors.Is(err, want) {
					check(fmt.Errorf("%v, want %v", err, want))
				}
			}
		}
	}
	times := interleaved(rounds, refuse(string(forged), stamp.ErrForged), refuse(spent, stamp.ErrReplayed))
	measured := func(what string, d time.Duration) figure {
		rate := float64(n) / d.Seconds()
		return figure{fmt.Sprintf("refusing a %s stamp (%s), one core", what, of), "≥ 1 M/s",
			fmt.Sprintf("%.2f M/s", rate/1e6), rate >= 1e6}
	}
	return []figure{measured("forged", times[0]), measured("replayed", times[1])}
}

func accepting(t *trial) []figure {
	rounds, n := 41, 20_000
	if t.quick {
		rounds, n = 1, 500
	}
	// A stamp of eqs60 takes 20 ms to make, so there are few. Each office takes all of them.
	plain, eqs := acceptedRate(stamp.SHA256K, rounds, n, 1), acceptedRate(stamp.EQS60, rounds, max(n/40, 20), 40)
	return []figure{{"accepting a stamp (sha256-k, 16 parts), one core, each for the first time", "≥ 300 k/s",
		fmt.Sprintf("%.0f k/s", plain/1e3), plain >= 300e3},
		{"… eqs60, 16 solutions", "≥ 300 k/s", fmt.Sprintf("%.0f k/s", eqs/1e3), eqs >= 300e3}}
}

// acceptedRate is how many stamps a second are accepted by one core, the median of some rounds. In each round some
// offices take n stamps, each office with an empty memory of what was spent.
func acceptedRate(of stamp.Algorithm, rounds, n, offices int) float64 {
	a := question(of, 16)
	office := stamp.NewOffice(stamp.Parts{})
	all := paid(office, a, n)
	times := []time.Duration{}
	for range rounds {
		var took time.Duration
		for range offices {
			fresh := stamp.NewOffice(stamp.Parts{Keys: office.Parts().Keys})
			took += interleaved(1, func() {
				for _, s := range all {
					try(fresh.Verify(context.Background(), when, s, wanted(a)))
				}
			})[0]
		}
		times = append(times, took)
	}
	return float64(n*offices) / median(times).Seconds()
}

// duplicates is S6: the same stamp a million times, from all sides at once.
func duplicates(t *trial) (figures []figure) {
	const sides = 16
	each := 1_000_000 / sides
	if t.quick {
		each = 1000
	}
	for _, of := range []stamp.Algorithm{stamp.SHA256K, stamp.EQS60} {
		office := stamp.NewOffice(stamp.Parts{})
		a := question(of, 64)
		one := paid(office, a, 1)[0]
		var accepted atomic.Int64
		together(sides, func(int) error {
			for range each {
				if _, err := office.Verify(context.Background(), when, one, wanted(a)); err == nil {
					accepted.Add(1)
				}
			}
			return nil
		})
		figures = append(figures, figure{fmt.Sprintf("%d duplicates racing (%s): accepted more than once", sides*each, of),
			"0", fmt.Sprint(accepted.Load() - 1), accepted.Load() == 1})
	}
	return figures
}

// goTest runs tests of a package, with -short in a quick trial, and returns what they print.
func (t *trial) goTest(pkg string, args ...string) (string, error) {
	args = append([]string{"test", "-count=1"}, append(args, pkg)...)
	if t.quick {
		args = slices.Insert(args, 1, "-short")
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	return string(out), err
}

// tested runs a test of stamps and returns the numbers that it logs: some figures are properties of what is not
// exported, and are measured where they are tested.
func tested(pattern string, flags ...string) (figures []float64) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-v"}, append(flags, "./throttle/stamp/...")...)...)
	cmd.Env = append(os.Environ(), "CI=")
	found := regexp.MustCompile(pattern).FindStringSubmatch(output(cmd))
	if found == nil {
		check(fmt.Errorf("no figure: %w", errors.ErrUnsupported))
	}
	for _, s := range found[1:] {
		figures = append(figures, try(strconv.ParseFloat(s, 64)))
	}
	return figures
}

// luck is S5.
func luck(*trial) []figure {
	f := tested(`p99 / mean = ([0-9.]+)`, "-run", "^TestLuck$")[0]
	e := tested(`5000000: p99 / mean = ([0-9.]+)`, "-run", "^TestEqsLuck$")[0]
	least := tested(`16 bits: p99 / mean = ([0-9.]+)`, "-run", "^TestEqsLuck$")[0]
	return []figure{
		{"work to solve (sha256-k), p99 / mean of 10⁶ draws", "≤ 1.7", fmt.Sprintf("%.3f", f), f <= 1.7},
		{"… (eqs60), of 2·10⁵ draws: at the most work of a phone in 5 s / at the least work", "≤ 1.7",
			fmt.Sprintf("%.3f / %.3f", e, least), max(e, least) <= 1.7},
	}
}

// solving is S4: one worker of the browser's solver, against awaiting WebCrypto for each hash, in a real Chromium; and
// for eqs60 against Go.
func solving(t *trial) []figure {
	time := "5x"
	if t.quick {
		time = "1x"
	}
	f := tested(`([0-9.e+]+) hashes/s\s+([0-9.]+) times-WebCrypto`, "-run", "^$", "-bench", "^BenchmarkBrowser$",
		"-benchtime", time)
	e := tested(`([0-9.]+) js/go\s+([0-9.]+) ms-go\s+[0-9.]+ ms-js\s+([0-9.]+) ms-wasm\s+([0-9.]+) wasm/go`, "-run", "^$",
		"-bench", "^BenchmarkEqsBrowser$", "-benchtime", time)
	return []figure{{"browser's solver (sha256-k), one worker, against awaiting WebCrypto for each hash", "≥ 30 ×",
		fmt.Sprintf("%.1f × (%.2f M hashes/s)", f[1], f[0]/1e6), f[1] >= 30},
		{"browser's solver (eqs60) in WebAssembly, one worker, time for a counter against Go on one core", "≤ 2 ×",
			fmt.Sprintf("%.2f × (%.2f ms against %.2f ms; %.2f × in plain JavaScript)", e[3], e[2], e[1], e[0]), e[3] <= 2}}
}

// logarithms is S8: what the solvers of dlog take, in group operations over 200 seeds, against the work declared.
func logarithms(*trial) []figure {
	steps := tested(`([0-9.]+) of the declared work`, "-run", "^TestCost$/^baby-step_giant-step$")[0]
	kangaroos := tested(`([0-9.]+) of the declared work`, "-run", "^TestCost$/^kangaroo$")[0]
	return []figure{
		{"`dlog` by baby steps and giant steps, group operations / declared work, 200 seeds", "0.85 to 1.0",
			fmt.Sprintf("%.3f", steps), steps >= 0.85 && steps <= 1},
		{"… by kangaroos", "≥ 0.8", fmt.Sprintf("%.3f", kangaroos), kangaroos >= 0.8},
	}
}

// steering is S7: the load becomes ten-fold at once, from clients that pay what is asked as long as their processors
// can. Simulated in steps of a millisecond, with the real throttle and the real lanes: how long until the stamped lane
// is back at its target, and how long after the end nothing is asked any more.
func steering(t *trial) (figures []figure) {
	algorithms := []stamp.Algorithm{stamp.SHA256K, stamp.EQS60}
	if t.algorithm != stamp.SHA256K {
		algorithms = []stamp.Algorithm{t.algorithm}
	}
	for _, a := range algorithms {
		back, dormant, peak := tenfold(stamp.Options{Algorithm: a})
		figures = append(figures, figure{
			fmt.Sprintf("ten-fold step of paying load (%s): stamped lane back at its target of 200ms (work rose to 2^%.1f)",
				a, peak.Bits()), "≤ 5 s", fmt.Sprintf("%.1f s", back.Seconds()), back <= 5*time.Second},
			figure{"… nothing is asked any more, after its end", "≤ 60 s", fmt.Sprintf("%.1f s", dormant.Seconds()),
				dormant <= 60*time.Second})
	}
	return figures
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
	till    *stamp.Throttle
	waiting []*journey
	inside  []*journey
	owed    float64
	came    int
}

func tenfold(o stamp.Options) (back, dormant time.Duration, peak stamp.Work) {
	s := &lane{now: when, lanes: try(admission.New(admission.Options{Concurrent: places, PerClient: 10_000}, when)),
		till: try(stamp.NewThrottle(o, when, nil))}
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
		work := s.till.Observe(weir.Load{Of: "gate", Share: share, Delay: delay}, s.now)
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
