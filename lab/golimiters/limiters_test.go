package golimiters

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// plenty is more than anybody asks for within an hour. With as many a second, go-limiter v0.7.1 would refuse nearly
// everything after the first second: it adds fewer tokens than it should where there are more than 31,622 a second.
const plenty = 1_000_000_000

func BenchmarkLimiters(b *testing.B) {
	for _, s := range []struct {
		name       string
		keys       int
		perHour    int
		goroutines int
	}{
		{"one key", 1, plenty, 1},
		{"100,000 keys", 100_000, plenty, 1},
		{"100,000 keys, two goroutines", 100_000, plenty, 2},
		{"one key, over its limit", 1, 1, 1},
	} {
		for _, side := range sides() {
			b.Run(s.name+"/"+side.name, func(b *testing.B) {
				allow, end, err := side.make(s.perHour)
				if err != nil {
					b.Fatal(err)
				}
				defer end()
				names := make([]string, s.keys)
				for i := range names {
					names[i] = fmt.Sprintf("account-%06d", i)
					allow(names[i]) // every key is known
				}
				// Clients do not come in the order in which they came first, in which memory was given out.
				rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
				b.ReportAllocs()
				b.ResetTimer()
				refused := play(allow, names, b.N, s.goroutines)
				b.StopTimer()
				// A measurement of something else is worth nothing.
				if s.perHour == plenty && refused > 0 {
					b.Errorf("%d of %d are refused", refused, b.N)
				}
				if admitted := b.N - refused; s.perHour != plenty && admitted > 1 { // a new hour may have begun
					b.Errorf("%d of %d are admitted, where one an hour may be", admitted, b.N)
				}
			})
		}
	}
}

// play asks for events, and returns how many were refused.
func play(allow func(string) bool, names []string, events, goroutines int) int {
	var refused atomic.Int64
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			n := 0
			for i := g; i < events; i += goroutines {
				if !allow(names[i%len(names)]) {
					n++
				}
			}
			refused.Add(int64(n))
		})
	}
	all.Wait()
	return int(refused.Load())
}
