//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io/fs"
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
	slice, rounds := pick(t, uint32(1_000_000), 10_000), pick(t, 11, 1)
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
			figures = append(figures, figure{fmt.Sprintf("XDP %s, 1 M sources, table of %s: LRU hash / ours", what, sizes[i]),
				[]value{least([]float64{8, 6}[j], theirs.Seconds()/ours.Seconds(), "%.1f ×")},
				fmt.Sprintf("%d / %d ns", theirs.Nanoseconds(), ours.Nanoseconds())})
		}
	}
	return figures
}

// sameAnswers is B7: the test that gives a million packets to the kernel's program and to the Go code.
func sameAnswers(t *trial) []figure {
	out, err := t.goTest("./gate/xdpgate", "-run", "^TestSameAnswers$", "-v", pick(t, "-short=false", "-short"))
	got := value{"0", "0 of 10⁶", true}
	if err != nil {
		got.text, got.met = "they differ", false
	} else if strings.Contains(out, "--- SKIP") {
		check(fmt.Errorf("%w: %s", fs.ErrPermission, out))
	}
	return []figure{{"the kernel and Go asked about the same packets: answers that differ", []value{got}, ""}}
}

// peopleUnderSYNs is B9: people connect while SYNs of few networks come at a fixed rate, with the limiter in shadow and
// enforced. The networks are namespaces, which only tests make, so the benchmark of gate/xdpgate plays it.
func peopleUnderSYNs(t *trial) (figures []figure) {
	rounds := t.benchmark("./gate/xdpgate", "People", "1x")
	for _, cookies := range []string{"off", "on"} {
		shadow, enforced := rounds.of("People/cookies="+cookies+"/shadow"), rounds.of("People/cookies="+cookies+"/enforce")
		figures = append(figures,
			figure{fmt.Sprintf("people who connect under 20,000 SYNs/s of 40 networks, each limited to 10/min, SYN "+
				"cookies %s: in shadow / enforced", cookies),
				[]value{beside(shadow["connected-%"], "%.0f %%"), least(100, enforced["connected-%"], "%.0f %% enforced")},
				fmt.Sprintf("p95 %.1f ms / %.1f ms", shadow["p95-ms"], enforced["p95-ms"])},
			figure{fmt.Sprintf("… a SYN sent and taken, cookies %s: in shadow / enforced", cookies),
				[]value{beside(shadow["ns/SYN"]/enforced["ns/SYN"], "%.1f ×")},
				fmt.Sprintf("%.1f / %.1f µs", shadow["ns/SYN"]/1000, enforced["ns/SYN"]/1000)})
	}
	return figures
}
