package nats

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// report tells how long things took.
func report(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// BenchmarkSend is the time from one node to the two others, one message after the other.
func BenchmarkSend(b *testing.B) {
	x, y, z := three(b)
	met(b, x, y, z)
	arrived := make(chan time.Duration, 16)
	start := time.Now()
	for _, to := range []*Bus{y, z} {
		if _, err := to.Hear("t", func(msg []byte) {
			arrived <- time.Since(start) - time.Duration(binary.BigEndian.Uint64(msg))
		}); err != nil {
			b.Fatal(err)
		}
	}
	needs.Wait(b, "both hear", func() bool {
		_ = x.Send("t", make([]byte, 8))
		return x.server.NumSubscriptions() > 0 && len(arrived) > 4
	})
	for quiet := false; !quiet; {
		select {
		case <-arrived:
		case <-time.After(100 * time.Millisecond):
			quiet = true
		}
	}
	var took []time.Duration
	msg := make([]byte, 128)
	for b.Loop() {
		binary.BigEndian.PutUint64(msg, uint64(time.Since(start)))
		if err := x.Send("t", msg); err != nil {
			b.Fatal(err)
		}
		took = append(took, <-arrived, <-arrived)
	}
	report(b, took)
}

// BenchmarkAsk is the time of a question and its answer.
func BenchmarkAsk(b *testing.B) {
	x, y, z := three(b)
	met(b, x, y, z)
	if _, err := y.Answer("b.1", "t", func(msg []byte) []byte { return msg }); err != nil {
		b.Fatal(err)
	}
	askable(b, x, "b.1", "t")
	var took []time.Duration
	msg := make([]byte, 128)
	for b.Loop() {
		begin := time.Now()
		if _, err := x.Ask(b.Context(), "b.1", "t", msg); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	report(b, took)
}

// BenchmarkOpen is how long opening and closing takes, and what one of three nodes that have met costs.
func BenchmarkOpen(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	const nodes = 3
	x, y, z := three(b)
	met(b, x, y, z)
	runtime.GC()
	runtime.ReadMemStats(&after)
	more := runtime.NumGoroutine() - goroutines
	for b.Loop() {
		o := optionsOf("d")
		d, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		closeBus(b, d)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/nodes/1e3, "KB/node")
	b.ReportMetric(float64(more)/nodes, "goroutines/node")
}
