//go:build linux

package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/throttle/stamp"
)

// when is the time of everything here: stamps are given the time.
var when = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// question is what the benchmarks of stamps ask for.
func question(w stamp.Work) stamp.Ask {
	return stamp.Ask{Work: w, Lifetime: 5 * time.Minute, Client: "c-1234567890abcdef",
		Message: stamp.ID("GET", "https://example.com/", "")}
}

func wanted(a stamp.Ask) stamp.Demand { return stamp.Demand{Client: a.Client, Message: a.Message} }

// paid issues so many challenges and pays them.
func paid(o *stamp.Office, a stamp.Ask, n int) ([]string, error) {
	all := make([]string, n)
	for i := range all {
		c, err := o.Issue(when, a)
		if err != nil {
			return nil, err
		}
		if all[i], err = stamp.Solve(context.Background(), c, stamp.SolveOptions{}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// issuing is S1: a challenge, against hmac.New and a sum over as many bytes.
func issuing(o options) ([]figure, error) {
	rounds, n := 21, 100_000
	if o.quick {
		rounds, n = 1, 1000
	}
	office := stamp.NewOffice(stamp.Parts{})
	a := question(1 << 20)
	var failed error
	// fixed fields, three lengths, two ids
	secret, raw := make([]byte, 32), make([]byte, 44+3+len(a.Client)+len(a.Message))
	rand.Read(secret)
	ours := func() {
		for range n {
			if _, err := office.Issue(when, a); err != nil {
				failed = err
			}
		}
	}
	bare := func() {
		for range n {
			h := hmac.New(sha256.New, secret)
			h.Write(raw)
			h.Sum(nil)
		}
	}
	t := interleaved(rounds, ours, bare)
	ratio := float64(t[0]) / float64(t[1])
	return []figure{{"issuing a challenge (sha256-k), against hmac.New and a sum over the same bytes; nothing is stored", "≤ 1.2 ×",
		fmt.Sprintf("%.2f × (%.0f ns)", ratio, float64(t[0].Nanoseconds())/float64(n)), ratio <= 1.2}}, failed
}

// refusing is S2, accepting S3: stamps that are worth nothing, and stamps that are good, on one core.
func refusing(o options) ([]figure, error) {
	rounds, n := 11, 200_000
	if o.quick {
		rounds, n = 1, 1000
	}
	office := stamp.NewOffice(stamp.Parts{})
	a := question(64)
	all, err := paid(office, a, 2)
	if err != nil {
		return nil, err
	}
	forged, spent := []byte(all[0]), all[1]
	forged[20] ^= 1
	ctx := context.Background()
	if _, err := office.Verify(ctx, when, spent, wanted(a)); err != nil {
		return nil, err
	}
	var failed error
	refuse := func(s string, want error) func() {
		return func() {
			for range n {
				if _, err := office.Verify(ctx, when, s, wanted(a)); !errors.Is(err, want) {
					failed = fmt.Errorf("%v, want %v", err, want)
				}
			}
		}
	}
	t := interleaved(rounds, refuse(string(forged), stamp.ErrForged), refuse(spent, stamp.ErrReplayed))
	rate := func(d time.Duration) float64 { return float64(n) / d.Seconds() }
	return []figure{
		{"refusing a forged stamp, one core", "≥ 1 M/s", fmt.Sprintf("%.2f M/s", rate(t[0])/1e6), rate(t[0]) >= 1e6},
		{"refusing a replayed stamp, one core", "≥ 1 M/s", fmt.Sprintf("%.2f M/s", rate(t[1])/1e6), rate(t[1]) >= 1e6},
	}, failed
}

func accepting(o options) ([]figure, error) {
	rounds, n := 11, 20_000
	if o.quick {
		rounds, n = 1, 500
	}
	a := question(16)
	office := stamp.NewOffice(stamp.Parts{})
	all, err := paid(office, a, n)
	if err != nil {
		return nil, err
	}
	var failed error
	accept := func(office *stamp.Office) {
		for _, s := range all {
			if _, err := office.Verify(context.Background(), when, s, wanted(a)); err != nil {
				failed = err
			}
		}
	}
	times := []time.Duration{}
	for range rounds { // each round with an empty memory of what was spent
		fresh := stamp.NewOffice(stamp.Parts{Keys: office.Parts().Keys})
		times = append(times, interleaved(1, func() { accept(fresh) })[0])
	}
	rate := float64(n) / median(times).Seconds()
	return []figure{{"accepting a stamp (sha256-k, 16 parts), one core, each for the first time", "≥ 300 k/s",
		fmt.Sprintf("%.0f k/s", rate/1e3), rate >= 300e3}}, failed
}

// duplicates is S6: a million times the same stamp, from all sides at once.
func duplicates(o options) ([]figure, error) {
	const sides = 16
	each := 1_000_000 / sides
	if o.quick {
		each = 1000
	}
	office := stamp.NewOffice(stamp.Parts{})
	a := question(64)
	all, err := paid(office, a, 1)
	if err != nil {
		return nil, err
	}
	var accepted atomic.Int64
	var done sync.WaitGroup
	for range sides {
		done.Go(func() {
			for range each {
				if _, err := office.Verify(context.Background(), when, all[0], wanted(a)); err == nil {
					accepted.Add(1)
				}
			}
		})
	}
	done.Wait()
	return []figure{{fmt.Sprintf("%d duplicates racing: accepted more than once", sides*each), "0",
		fmt.Sprint(accepted.Load() - 1), accepted.Load() == 1}}, nil
}

// tested runs a test of package stamp and returns what it logs: some figures are properties of what is not exported,
// and are measured where they are tested.
func tested(flags []string, pattern string) ([]float64, error) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-v"}, append(flags, "./throttle/stamp")...)...)
	cmd.Env = append(os.Environ(), "CI=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	found := regexp.MustCompile(pattern).FindStringSubmatch(string(out))
	if found == nil {
		return nil, fmt.Errorf("no figure: %w", errors.ErrUnsupported)
	}
	var figures []float64
	for _, s := range found[1:] {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// luck is S5.
func luck(options) ([]figure, error) {
	f, err := tested([]string{"-run", "^TestLuck$"}, `p99 / mean = ([0-9.]+)`)
	if err != nil {
		return nil, err
	}
	return []figure{{"work to solve (sha256-k), p99 / mean of 10⁶ draws", "≤ 1.7", fmt.Sprintf("%.3f", f[0]),
		f[0] <= 1.7}}, nil
}

// solving is S4: one worker of the browser's solver, against awaiting WebCrypto for each hash, in a real Chromium.
func solving(o options) ([]figure, error) {
	time := "5x"
	if o.quick {
		time = "1x"
	}
	f, err := tested([]string{"-run", "^$", "-bench", "^BenchmarkBrowser$", "-benchtime", time},
		`([0-9.e+]+) hashes/s\s+([0-9.]+) times-WebCrypto`)
	if err != nil {
		return nil, err
	}
	return []figure{{"browser's solver (sha256-k), one worker, against awaiting WebCrypto for each hash", "≥ 30 ×",
		fmt.Sprintf("%.1f × (%.2f M hashes/s)", f[1], f[0]/1e6), f[1] >= 30}}, nil
}

// logarithms is S8: what the solvers of dlog take, in group operations over 200 seeds, against the work declared.
func logarithms(options) ([]figure, error) {
	steps, err := tested([]string{"-run", "^TestCost$/^baby-step_giant-step$"}, `([0-9.]+) of the declared work`)
	if err != nil {
		return nil, err
	}
	kangaroos, err := tested([]string{"-run", "^TestCost$/^kangaroo$"}, `([0-9.]+) of the declared work`)
	if err != nil {
		return nil, err
	}
	return []figure{
		{"`dlog` by baby steps and giant steps, group operations / declared work, 200 seeds", "0.85 to 1.0",
			fmt.Sprintf("%.3f", steps[0]), steps[0] >= 0.85 && steps[0] <= 1},
		{"… by kangaroos", "≥ 0.8", fmt.Sprintf("%.3f", kangaroos[0]), kangaroos[0] >= 0.8},
	}, nil
}
