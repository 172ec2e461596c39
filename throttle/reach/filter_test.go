package reach

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

func filterOf(keys []uint64) *Filter {
	f := new(Filter)
	for _, key := range keys {
		f.Add(key)
	}
	return f
}

// manyFiltered is a filter with so many full layers.
func manyFiltered(layers int) *Filter {
	r, f := rand.New(rand.NewPCG(1, 3)), &Filter{words: make([]uint64, firstLayer*(1<<layers-1))}
	for i := range layers {
		for range 4 * len(f.layer(i)) {
			mark(f.layer(i), r.Uint64(), i)
		}
	}
	f.recount()
	return f
}

func TestFilterCounts(t *testing.T) {
	for _, n := range []int{1, 10, 100, 1000, 10_000, 50_000} {
		keys := someKeys(uint64(n), n)
		f := filterOf(keys)
		for _, key := range keys {
			if !f.Has(key) || f.Add(key) {
				t.Fatal("forgotten")
			}
		}
		wrong, each := strangers(f.Has, 20_000), float64(f.Bytes())/float64(n)
		t.Logf("%6d: counted %.0f, %.2f bytes each, %.2f %% of strangers seem known", n, f.Count(), each, 100*wrong)
		if math.Abs(errorOf(f.Count(), n)) > max(0.01, 0.3/math.Sqrt(float64(n))) || wrong > 0.01 {
			t.Errorf("%d: counted %f, %.2f %% of strangers seem known", n, f.Count(), 100*wrong)
		}
		if n >= 1000 && each > 5 {
			t.Errorf("%d take %f bytes each", n, each)
		}
	}
}

func TestFilterHasRoom(t *testing.T) {
	needs.Unwatched(t)
	f := manyFiltered(maxLayers)
	if f.layers() != maxLayers || math.Abs(errorOf(f.Count(), 1<<20)) > 0.01 {
		t.Fatalf("%d layers, %f", f.layers(), f.Count())
	}
	if wrong := strangers(f.Has, 20_000); wrong > 0.01 {
		t.Errorf("%.2f %% of strangers seem known", 100*wrong)
	}
	added, refused := 0, 0
	for _, key := range someKeys(5, 5000) {
		if had := f.Has(key); f.Add(key) {
			added++
		} else if !had {
			refused++
		}
	}
	if refused < 1000 || f.layers() != maxLayers {
		t.Errorf("%d added, %d refused, %d layers", added, refused, f.layers())
	}
}

func TestFilterIsStored(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		keys := drawKeys(t, "keys", 300)
		f := filterOf(keys)
		b := storedBytes(f)
		var read Filter
		if err := read.UnmarshalBinary(b); err != nil || !bytes.Equal(storedBytes(&read), b) ||
			read.Count() != f.Count() {
			t.Fatalf("%v: %f was stored, %f read", err, f.Count(), read.Count())
		}
		for _, key := range append(keys, drawKeys(t, "more", 100)...) {
			if f.Has(key) != read.Has(key) || f.Add(key) != read.Add(key) {
				t.Fatalf("%#x is no longer what it was", key)
			}
		}
		for cut := range min(len(b), 50) {
			if err := read.UnmarshalBinary(b[:cut]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%d of %d bytes: %v", cut, len(b), err)
			}
		}
		b[0]++
		if err := read.UnmarshalBinary(b); !errors.Is(err, ErrNewer) {
			t.Fatalf("of a later version: %v", err)
		}
	})
}

func TestFilterMerges(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		x := drawKeys(t, "x", 300)
		y := append(slices.Clone(x[:rapid.IntRange(0, len(x)).Draw(t, "both")]), drawKeys(t, "y", 20)...)
		a, b := filterOf(x), filterOf(y)
		ab, ba := *a, *b
		errA, errB := ab.Merge(b), ba.Merge(a)
		if errA != nil || errB != nil {
			if !errors.Is(errA, ErrFull) || !errors.Is(errB, ErrFull) ||
				!bytes.Equal(storedBytes(&ab), storedBytes(a)) {
				t.Fatal(errA, errB)
			}
			return
		}
		if !bytes.Equal(storedBytes(&ab), storedBytes(&ba)) {
			t.Fatal("the order matters")
		}
		for _, key := range slices.Concat(x, y) {
			if !ab.Has(key) {
				t.Fatal("forgotten")
			}
		}
		if again := ab; again.Merge(a) != nil || !bytes.Equal(storedBytes(&again), storedBytes(&ab)) {
			t.Fatal("merging again changed it")
		}
	})
	if err := manyFiltered(5).Merge(filterOf(someKeys(8, 400))); !errors.Is(err, ErrFull) {
		t.Errorf("filters of different people: %v", err)
	}
}

func FuzzFilter(f *testing.F) {
	for _, n := range []int{0, 1, 100} {
		f.Add(storedBytes(filterOf(someKeys(1, n))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Filter
		if err := s.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
				t.Error(err)
			}
			return
		}
		if !bytes.Equal(storedBytes(&s), b) {
			t.Errorf("%x was read, %x is stored", b, storedBytes(&s))
		}
		for _, key := range someKeys(uint64(len(b)), 100) {
			if s.Add(key); !s.Has(key) {
				t.Errorf("%#x is forgotten", key)
			}
		}
		if math.IsNaN(s.Count()) || math.IsInf(s.Count(), 0) {
			t.Error(s.Count())
		}
		o := s
		_ = s.Merge(&o)
	})
}
