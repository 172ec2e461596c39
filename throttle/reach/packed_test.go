package reach

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// A packed set has what was packed and nothing else, however the values lie.
func TestPacked(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		bound := generations[rapid.IntRange(0, 2).Draw(t, "generation")].bound
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var values []uint32
		for range rapid.IntRange(0, 4).Draw(t, "heaps") {
			from, width := r.Uint32N(bound), uint32(1)<<r.IntN(20)
			for range r.IntN(300) {
				values = append(values, min(from+r.Uint32N(width), bound-1))
			}
		}
		slices.Sort(values)
		values = slices.Compact(values)
		w := newPacker(bound, len(values)+rapid.IntRange(0, 50).Draw(t, "fewer than expected"))
		for _, v := range values {
			w.add(v)
		}
		b := w.pack().appendTo(nil)
		if len(b) != w.bytes() {
			t.Fatalf("%d bytes, %d were expected", len(b), w.bytes())
		}
		var p packed
		rest, ok := p.open(append(b, 1, 2, 3), bound)
		if !ok || len(rest) != 3 || int(p.n) != len(values) {
			t.Fatalf("%v, %d bytes are left, %d values of %d", ok, len(rest), p.n, len(values))
		}
		var read []uint32
		c := p.all()
		for v, ok := c.read(); ok; v, ok = c.read() {
			read = append(read, v)
		}
		if !slices.Equal(read, values) {
			t.Fatalf("packed %d, read %d", values, read)
		}
		for _, v := range values {
			for _, x := range []uint32{v - 1, v, v + 1} {
				if _, is := slices.BinarySearch(values, x); x < bound && p.has(x) != is {
					t.Fatalf("%d is in it: %v", x, is)
				}
			}
		}
	})
}

func TestNth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		x := r.Uint64()
		switch i % 4 {
		case 0:
			x &= r.Uint64() & r.Uint64()
		case 1:
			x |= r.Uint64() | r.Uint64()
		case 2:
			x = ^uint64(0) << (i % 64)
		}
		n := uint64(0)
		for rest := x; rest != 0; rest &= rest - 1 {
			if got, want := nth(x, n), uint64(bits.TrailingZeros64(rest)); got != want {
				t.Fatalf("%d. one of %#x: %d, want %d", n, x, got, want)
			}
			n++
		}
	}
}

func TestSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var list []uint32
		for range r.IntN(40) {
			list = append(list, r.Uint32N(100))
		}
		slices.Sort(list)
		list = slices.Compact(list)
		for h := range uint32(101) {
			at, found := search(list, h)
			if want, is := slices.BinarySearch(list, h); at != want || found != is {
				t.Fatalf("%d in %d: %d, %v", h, list, at, found)
			}
		}
	}
}
