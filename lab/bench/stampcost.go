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
	"slices"
	"strconv"
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
	a := question(1 << 20)
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

// refusing is S2, accepting S3: stamps that are worth nothing, and stamps that are good, on one core.
func refusing(t *trial) []figure {
	rounds, n := 11, 200_000
	if t.quick {
		rounds, n = 1, 1000
	}
	office := stamp.NewOffice(stamp.Parts{})
	a := question(64)
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
		return figure{what, "≥ 1 M/s", fmt.Sprintf("%.2f M/s", rate/1e6), rate >= 1e6}
	}
	return []figure{measured("refusing a forged stamp, one core", times[0]),
		measured("refusing a replayed stamp, one core", times[1])}
}

func accepting(t *trial) []figure {
	rounds, n := 11, 20_000
	if t.quick {
		rounds, n = 1, 500
	}
	a := question(16)
	office := stamp.NewOffice(stamp.Parts{})
	all := paid(office, a, n)
	times := []time.Duration{}
	for range rounds { // each round with an empty memory of what was spent
		fresh := stamp.NewOffice(stamp.Parts{Keys: office.Parts().Keys})
		times = append(times, interleaved(1, func() {
			for _, s := range all {
				try(fresh.Verify(context.Background(), when, s, wanted(a)))
			}
		})[0])
	}
	rate := float64(n) / median(times).Seconds()
	return []figure{{"accepting a stamp (sha256-k, 16 parts), one core, each for the first time", "≥ 300 k/s",
		fmt.Sprintf("%.0f k/s", rate/1e3), rate >= 300e3}}
}

// duplicates is S6: a million times the same stamp, from all sides at once.
func duplicates(t *trial) []figure {
	const sides = 16
	each := 1_000_000 / sides
	if t.quick {
		each = 1000
	}
	office := stamp.NewOffice(stamp.Parts{})
	a := question(64)
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
	return []figure{{fmt.Sprintf("%d duplicates racing: accepted more than once", sides*each), "0",
		fmt.Sprint(accepted.Load() - 1), accepted.Load() == 1}}
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

// tested runs a test of package stamp and returns the numbers that it logs: some figures are properties of what is not
// exported, and are measured where they are tested.
func tested(pattern string, flags ...string) (figures []float64) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-v"}, append(flags, "./throttle/stamp")...)...)
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
	return []figure{{"work to solve (sha256-k), p99 / mean of 10⁶ draws", "≤ 1.7", fmt.Sprintf("%.3f", f), f <= 1.7}}
}

// solving is S4: one worker of the browser's solver, against awaiting WebCrypto for each hash, in a real Chromium.
func solving(t *trial) []figure {
	time := "5x"
	if t.quick {
		time = "1x"
	}
	f := tested(`([0-9.e+]+) hashes/s\s+([0-9.]+) times-WebCrypto`, "-run", "^$", "-bench", "^BenchmarkBrowser$",
		"-benchtime", time)
	return []figure{{"browser's solver (sha256-k), one worker, against awaiting WebCrypto for each hash", "≥ 30 ×",
		fmt.Sprintf("%.1f × (%.2f M hashes/s)", f[1], f[0]/1e6), f[1] >= 30}}
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
