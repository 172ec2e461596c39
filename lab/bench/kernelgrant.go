//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/gate/xdpgate"
	"weir/gate/xdpgate/peer"
	"weir/throttle/bloom"
)

// inKernel is B5: the program in the kernel on a SYN, by test run, with a million sources: within their limit, and over
// it. The peer is a token bucket for each source in an LRU hash of a million entries. There are tables of two sizes:
// the default, and one of 2 MB.
func inKernel(t *trial) (figures []figure) {
	const sources = 1 << 20
	// long enough that what others left in the caches matters little
	slice, rounds := uint32(1_000_000), 11
	if t.quick {
		slice, rounds = 10_000, 1
	}
	syn := synPacket()
	var runs []func([]byte, uint32) (time.Duration, error)
	for _, burst := range []uint64{1_000_000, 1} { // within the limit, over it
		p := try(peer.New(0, burst, sources))
		defer p.Close()
		try(p.Run(syn, 2*sources)) // every source has been there
		runs = append(runs, p.Run)
	}
	tables := []int64{100_000, 200_000}
	var sizes []weir.Size
	for _, attackers := range tables {
		limit := bloom.Options{Rate: weir.Rate{Count: 100, Per: 24 * time.Hour}, Burst: 1000, Attackers: attackers}
		sizes = append(sizes, weir.Size(try(limit.Shapes())[0].Bytes()/1000*1000))
		for _, drained := range []bool{false, true} {
			ours := try(xdpgate.NewTrial(xdpgate.Options{Interface: "lo", Bloom: limit}, sources))
			defer ours.Close()
			if drained {
				ours.Drain()
			}
			runs = append(runs, ours.Run)
		}
	}
	all := make([][]time.Duration, rounds+1)
	for i := range all {
		for _, run := range runs {
			all[i] = append(all[i], try(run(syn, slice)))
		}
	}
	times := medians(all[1:]) // the first round fills the caches
	for i := range tables {
		for j, what := range []string{"grant", "drop"} {
			ours, theirs := times[2+2*i+j], times[j]
			ratio, least := theirs.Seconds()/ours.Seconds(), []float64{8, 6}[j]
			figures = append(figures,
				figure{fmt.Sprintf("XDP %s, 1 M sources, table of %s: LRU hash / ours", what, sizes[i]),
					fmt.Sprintf("≥ %g ×", least),
					fmt.Sprintf("%.1f × (%d / %d ns)", ratio, theirs.Nanoseconds(), ours.Nanoseconds()),
					ratio >= least})
		}
	}
	return figures
}

// sameAnswers is B7: the test that gives a million packets to the kernel's program and to the Go code.
func sameAnswers(t *trial) []figure {
	out, err := t.goTest("./gate/xdpgate", "-run", "^TestSameAnswers$", "-v")
	got := "0"
	if err != nil {
		got = "they differ"
	} else if strings.Contains(out, "--- SKIP") {
		check(fmt.Errorf("%w: %s", fs.ErrPermission, out))
	}
	return []figure{{"the kernel and Go asked about the same packets: answers that differ", "0 of 10⁶", got,
		err == nil}}
}

// peopleUnderSYNs is B9: people connect while SYNs of few networks come at a fixed rate, with the limiter in shadow and
// enforced. The networks are namespaces, which only tests make, so the benchmark of gate/xdpgate plays it.
func peopleUnderSYNs(t *trial) (figures []figure) {
	out, err := t.goTest("./gate/xdpgate", "-run", "^$", "-bench", "^BenchmarkPeople$", "-benchtime", "1x")
	if err != nil {
		check(fmt.Errorf("%w: %s", err, out))
	}
	rounds := peopleRounds(out)
	if len(rounds) == 0 {
		check(fmt.Errorf("%w: %s", fs.ErrPermission, out)) // it was skipped
	}
	share := func(r peopleRound) string {
		if _, some := r["p95-ms"]; !some {
			return fmt.Sprintf("%.0f %%", r["connected-%"])
		}
		return fmt.Sprintf("%.0f %% (p95 %.1f ms)", r["connected-%"], r["p95-ms"])
	}
	for _, cookies := range []string{"off", "on"} {
		shadow, enforced := rounds["cookies="+cookies+"/shadow"], rounds["cookies="+cookies+"/enforce"]
		if shadow == nil || enforced == nil {
			check(fmt.Errorf("the benchmark is not complete: %s", out))
		}
		figures = append(figures,
			figure{fmt.Sprintf("people who connect under 20,000 SYNs/s of 40 networks, each limited to 10/min, SYN "+
				"cookies %s: in shadow / enforced", cookies), "100 % enforced", share(shadow) + " / " + share(enforced),
				enforced["connected-%"] == 100},
			figure{fmt.Sprintf("… for comparison, a SYN sent and taken, cookies %s: in shadow / enforced", cookies),
				"–",
				fmt.Sprintf("%.1f × (%.1f / %.1f µs)", shadow["ns/SYN"]/enforced["ns/SYN"], shadow["ns/SYN"]/1000,
					enforced["ns/SYN"]/1000), true})
	}
	return figures
}

// A peopleRound is the result of one part of the benchmark, by unit.
type peopleRound map[string]float64

func peopleRounds(out string) map[string]peopleRound {
	all := map[string]peopleRound{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		name, ours := strings.CutPrefix(fields[0], "BenchmarkPeople/")
		if !ours {
			continue
		}
		if at := strings.LastIndexByte(name, '-'); at >= 0 { // the number of processors
			name = name[:at]
		}
		round := peopleRound{}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				round[fields[i+1]] = value
			}
		}
		all[name] = round
	}
	return all
}
