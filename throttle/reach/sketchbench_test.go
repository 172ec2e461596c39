package reach

import (
	"fmt"
	"testing"
)

var sizes = []int{10, 600, 10_000, 50_000, 1_000_000}

// BenchmarkSketch weighs and adds recipients who are new.
func BenchmarkSketch(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := sketchOf(someKeys(1, n))
			keys := someKeys(2, 1<<12)
			if s.Exact() { // it would not stay of this size
				keys = someKeys(1, n)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := keys[i%len(keys)]
				if s.Weigh(key) > 0 {
					s.Add(key)
				}
			}
		})
	}
}

// BenchmarkHas looks for people who are known, and for strangers.
func BenchmarkHas(b *testing.B) {
	for _, n := range sizes {
		keys := someKeys(1, n)
		k := knownOf(keys)
		for name, keys := range map[string][]uint64{"known": keys, "new": someKeys(2, 1<<16)} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					k.Has(keys[i*7919%len(keys)])
				}
			})
		}
		f := filterOf(keys)
		b.Run(fmt.Sprintf("bloom/%d", n), func(b *testing.B) {
			keys := someKeys(2, 1<<16)
			for i := 0; b.Loop(); i++ {
				f.Has(keys[i%len(keys)])
			}
		})
	}
}

// BenchmarkAdd adds people to the known ones, up to a size: settling is part of it.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys := someKeys(3, b.N)
			k := manyKnown(1, n)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%(n/4+1) == n/4 {
					b.StopTimer()
					k = manyKnown(1, n)
					b.StartTimer()
				}
				k.Add(keys[i])
			}
		})
	}
}

// BenchmarkSketchError tells by how much counts are wrong, over 100 keys, in short over three.
func BenchmarkSketchError(b *testing.B) {
	keys := uint64(100)
	if testing.Short() {
		keys = 3
	}
	for _, n := range []int{10, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				var counts, estimates []float64
				for seed := range keys {
					s := sketchOf(someKeys(seed, n))
					counts, estimates = append(counts, errorOf(s.Count(), n)),
						append(estimates, errorOf(s.Estimate(), n))
				}
				b.ReportMetric(100*rms(counts), "%count")
				b.ReportMetric(100*rms(estimates), "%merged")
			}
		})
	}
}

// BenchmarkKnownSize adds people one by one, and tells the most bytes and the most wrong answers on the way from ten
// thousand to a million.
func BenchmarkKnownSize(b *testing.B) {
	for b.Loop() {
		var k Known
		bytes, wrong := 0.0, 0.0
		for i, key := range someKeys(1, 1_000_000) {
			k.Add(key)
			if i >= 10_000 {
				bytes = max(bytes, float64(k.Bytes())/float64(i+1))
			}
			if i >= 10_000 && (i+1)%50_000 == 0 {
				wrong = max(wrong, strangers(k.Has, 50_000))
			}
		}
		b.ReportMetric(bytes, "B/recipient")
		b.ReportMetric(100*wrong, "%wrong")
	}
}
