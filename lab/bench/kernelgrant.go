//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/gate/xdpgate"
	"weir/gate/xdpgate/peer"
	"weir/throttle/bloom"
)

// inKernel is B5: the program in the kernel on a SYN, by test run, with a million made-up sources: within their limit,
// and over it. The peer is a token bucket for each source in an LRU hash of a million entries. Tables of two sizes: the
// default, and one of 2 MB.
func inKernel(o options) ([]figure, error) {
	const sources = 1 << 20
	// long enough that a slice is not mostly about what the others left in the caches
	slice, rounds := uint32(1_000_000), 11
	if o.quick {
		slice, rounds = 10_000, 1
	}
	syn := synPacket()
	type contestant struct {
		run   func([]byte, uint32) (time.Duration, error)
		times []time.Duration
	}
	var all []*contestant
	add := func(run func([]byte, uint32) (time.Duration, error)) { all = append(all, &contestant{run: run}) }

	for _, burst := range []uint64{1_000_000, 1} { // within the limit, over it
		p, err := peer.New(0, burst, sources)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		if _, err := p.Run(syn, 2*sources); err != nil { // every source has been there
			return nil, err
		}
		add(p.Run)
	}
	tables := []int64{100_000, 200_000}
	var sizes []weir.Size
	for _, attackers := range tables {
		limit := bloom.Options{Rate: weir.Rate{Count: 100, Per: 24 * time.Hour}, Burst: 1000, Attackers: attackers}
		shapes, err := limit.Shapes()
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, weir.Size(shapes[0].Bytes()/1000*1000))
		for _, drained := range []bool{false, true} {
			t, err := xdpgate.NewTrial(xdpgate.Options{Interface: "lo", Bloom: limit}, sources)
			if err != nil {
				return nil, err
			}
			defer t.Close()
			if drained {
				t.Drain()
			}
			add(t.Run)
		}
	}
	for round := range rounds + 1 {
		for _, c := range all {
			each, err := c.run(syn, slice)
			if err != nil {
				return nil, err
			}
			if round > 0 || o.quick { // the first one fills the caches
				c.times = append(c.times, each)
			}
		}
	}
	var figures []figure
	for i := range tables {
		for j, what := range []string{"grant", "drop"} {
			ours, theirs := median(all[2+2*i+j].times), median(all[j].times)
			ratio, least := theirs.Seconds()/ours.Seconds(), []float64{8, 6}[j]
			figures = append(figures, figure{
				what:   fmt.Sprintf("XDP %s, 1 M sources, table of %s: LRU hash / ours", what, sizes[i]),
				target: fmt.Sprintf("≥ %g ×", least),
				got:    fmt.Sprintf("%.1f × (%d / %d ns)", ratio, theirs.Nanoseconds(), ours.Nanoseconds()),
				met:    ratio >= least,
			})
		}
	}
	return figures, nil
}

// sameAnswers is B7: the test that puts a million packets before the kernel's program and the Go code.
func sameAnswers(o options) ([]figure, error) {
	args := []string{"test", "-count=1", "-run", "^TestSameAnswers$", "-v", "./gate/xdpgate"}
	if o.quick {
		args = slices.Insert(args, 1, "-short")
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	f := figure{what: "the kernel and Go asked about the same packets: answers that differ", target: "0 of 10⁶"}
	switch {
	case err != nil:
		f.got = "they differ"
	case strings.Contains(string(out), "--- SKIP"):
		return nil, fmt.Errorf("%w: %s", fs.ErrPermission, out)
	default:
		f.got, f.met = "0", true
	}
	return []figure{f}, nil
}
