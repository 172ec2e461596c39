//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"testing"
	"time"

	"weir"
	"weir/gate/xdpgate/peer"
	"weir/throttle/bloom"
)

// Figures of B5: a million sources, in tables for so many attackers. The first is the default, the second one has 2 MB,
// the third one too: its limiters have two bytes.
const benchSources = 1 << 20

var benchTables = []struct {
	name string
	bloom.Options
}{
	// Refills do not matter here; see BenchmarkRefill.
	{"weir-100k", bloom.Options{Rate: weir.Rate{Count: 100, Per: 24 * time.Hour}, Burst: 1000}},
	{"weir-200k", bloom.Options{Rate: weir.Rate{Count: 100, Per: 24 * time.Hour}, Burst: 1000, Attackers: 200_000}},
	{"weir-100k-wide", bloom.Options{Rate: weir.Rate{Count: 100, Per: 24 * time.Hour}, Burst: 300_000}},
}

func benchTrial(b *testing.B, o bloom.Options) *Trial {
	b.Helper()
	needsKernel(b)
	trial, err := NewTrial(Options{Interface: "lo", Bloom: o}, benchSources)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(trial.Close)
	return trial
}

// run measures b.N packets in the kernel, without the way there.
func run(b *testing.B, f func([]byte, uint32) (time.Duration, error)) {
	b.Helper()
	each, err := f(syn4(""), uint32(b.N))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(each.Nanoseconds()), "ns/op")
}

// BenchmarkGrant: sources within their limit.
func BenchmarkGrant(b *testing.B) {
	for _, c := range benchTables {
		b.Run(c.name, func(b *testing.B) { run(b, benchTrial(b, c.Options).Run) })
	}
	b.Run("lru", func(b *testing.B) { run(b, benchPeer(b, 1_000_000).Run) })
}

// BenchmarkDrop: sources over their limit.
func BenchmarkDrop(b *testing.B) {
	for _, c := range benchTables {
		b.Run(c.name, func(b *testing.B) {
			trial := benchTrial(b, c.Options)
			trial.Drain()
			run(b, trial.Run)
		})
	}
	b.Run("lru", func(b *testing.B) { run(b, benchPeer(b, 1).Run) })
}

// BenchmarkRefill: sources far over a limit that gives tokens every millisecond.
func BenchmarkRefill(b *testing.B) {
	o := bloom.Options{Rate: weir.Rate{Count: 5000, Per: time.Second}, Burst: 5000}
	run(b, benchTrial(b, o).Run)
}

// benchPeer returns the LRU hash with an entry for about every source.
func benchPeer(b *testing.B, burst uint64) *peer.Trial {
	b.Helper()
	needsKernel(b)
	trial, err := peer.New(0, burst, benchSources)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { trial.Close() })
	if _, err := trial.Run(syn4(""), 2*benchSources); err != nil {
		b.Fatal(err)
	}
	return trial
}
