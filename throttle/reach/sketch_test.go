package reach

import (
	"bytes"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// someKeys returns as many keys as asked for, other ones for every seed.
func someKeys(seed uint64, n int) []uint64 {
	r := rand.New(rand.NewPCG(seed, 6))
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = r.Uint64()
	}
	return keys
}

func sketchOf(keys []uint64) *Sketch {
	s := new(Sketch)
	for _, key := range keys {
		s.Add(key)
	}
	return s
}

// errorOf is the error of a count, as a share.
func errorOf(count float64, n int) float64 { return count/float64(n) - 1 }

func rms(errs []float64) float64 {
	sum := 0.0
	for _, e := range errs {
		sum += e * e
	}
	return math.Sqrt(sum / float64(len(errs)))
}

// A sketch of few is exact, and of many it is as wrong as 4096 cells are. BenchmarkSketchError does the same for a
// million.
func TestSketchCounts(t *testing.T) {
	needs.Unwatched(t)
	for seed := range uint64(100) {
		if s := sketchOf(someKeys(seed, 10)); s.Count() != 10 || s.Estimate() != 10 || s.Changes() != 10 || !s.Exact() {
			t.Errorf("seed %d: %v, %v, %d of 10", seed, s.Count(), s.Estimate(), s.Changes())
		}
	}
	var counts, estimates, merged []float64
	for seed := range uint64(100) {
		const n = 10_000
		keys := someKeys(seed, n)
		s := sketchOf(keys)
		counts, estimates = append(counts, errorOf(s.Count(), n)), append(estimates, errorOf(s.Estimate(), n))
		m := sketchOf(keys[:6000])
		if err := m.Merge(sketchOf(keys[4000:])); err != nil {
			t.Fatal(err)
		}
		merged = append(merged, errorOf(m.Count(), n))
	}
	t.Logf("error at 10,000: count %.2f %%, estimate %.2f %%, after a merge %.2f %%", 100*rms(counts),
		100*rms(estimates), 100*rms(merged))
	for _, c := range []struct {
		name string
		errs []float64
		most float64
	}{{"count", counts, 0.016}, {"estimate", estimates, 0.02}, {"after a merge", merged, 0.02}} {
		if got := rms(c.errs); got > c.most {
			t.Errorf("%s: wrong by %.2f %%", c.name, 100*got)
		}
	}
}

// The source's counter tells far too few, which is why it is not the default. The count goes on to tell them all.
func TestSketchChanges(t *testing.T) {
	s, n := new(Sketch), 0
	for _, c := range []struct{ n, changes int }{{50_000, 10_000}, {1_000_000, 19_000}} {
		for _, key := range someKeys(uint64(c.n), c.n-n) {
			s.Add(key)
		}
		n = c.n
		t.Logf("%d recipients: %d changes, count %.0f, estimate %.0f", n, s.Changes(), s.Count(), s.Estimate())
		if e := errorOf(float64(s.Changes()), c.changes); math.Abs(e) > 0.05 {
			t.Errorf("%d recipients: %d changes, want about %d", n, s.Changes(), c.changes)
		}
		if e := max(math.Abs(errorOf(s.Count(), n)), math.Abs(errorOf(s.Estimate(), n))); e > 0.05 {
			t.Errorf("%d recipients: %f, %f", n, s.Count(), s.Estimate())
		}
	}
}

func TestSketchIsSmall(t *testing.T) {
	for _, c := range []struct{ n, memory, stored int }{{10, 128, 60}, {100, 600, 410}, {10_000, 4096, 4096},
		{100_000, 4096, 4096}} {
		s := sketchOf(someKeys(1, c.n))
		b, _ := s.AppendBinary(nil)
		t.Logf("%d recipients: %d bytes of memory, %d stored", c.n, s.Bytes(), len(b))
		if s.Bytes() > c.memory || s.Bytes() < len(b) || len(b) > c.stored {
			t.Errorf("%d recipients: %d bytes of memory, %d stored", c.n, s.Bytes(), len(b))
		}
	}
	// It is the largest just before it gives up being exact.
	most := 0
	s := new(Sketch)
	for _, key := range someKeys(1, 1000) {
		s.Add(key)
		most = max(most, s.Bytes())
	}
	if most > 4096 {
		t.Errorf("%d bytes on the way", most)
	}
}

func TestNewSketch(t *testing.T) {
	for _, cells := range []int{-1, 0, 1, 128, 255, 257, 4095, 65537, 131072} {
		if s, err := NewSketch(cells); s != nil || !errors.Is(err, ErrCells) {
			t.Errorf("%d cells: %v", cells, err)
		}
	}
	for cells := 256; cells <= 65536; cells *= 2 {
		s, err := NewSketch(cells)
		if err != nil || s.Cells() != cells {
			t.Errorf("%d cells: %v", cells, err)
			continue
		}
		const n = 30_000
		for _, key := range someKeys(uint64(cells), n) {
			s.Add(key)
		}
		most := 4 / math.Sqrt(float64(cells))
		if a, b := errorOf(s.Count(), n), errorOf(s.Estimate(), n); math.Abs(a) > most || math.Abs(b) > most ||
			s.Bytes() > cells+200 {
			t.Errorf("%d cells: %f, %f, %d bytes", cells, a, b, s.Bytes())
		}
	}
	small, _ := NewSketch(256)
	if err := new(Sketch).Merge(small); !errors.Is(err, ErrCells) {
		t.Errorf("merged with another number of cells: %v", err)
	}
}

// A plain sketch has a cell in every byte from the start, and an exact set beside it.
type plain struct {
	p      int
	cells  []byte
	hashes map[uint32]bool
	count  float64
}

func (m *plain) add(key uint64) (weight float64) {
	h := uint32(key >> 32)
	isNew, exact := !m.hashes[h], len(m.hashes) <= (1<<m.p+5)/6
	m.hashes[h] = true
	index, value := h>>(32-m.p), byte(1)
	for at := 31 - m.p; at >= 0 && h>>at&1 == 0; at-- {
		value++
	}
	chance := 0.0
	for _, v := range m.cells {
		if int(v) < 33-m.p {
			chance += math.Pow(2, -float64(v))
		}
	}
	chance /= float64(len(m.cells))
	changes := value > m.cells[index]
	m.cells[index] = max(m.cells[index], value)
	switch {
	case exact && isNew:
		m.count++
		return 1
	case !exact && changes:
		m.count += 1 / chance
		return 1 / chance
	}
	return 0
}

func cellsOf(s *Sketch) []byte {
	c := *s.Clone()
	if !c.dense {
		c.toCells()
	}
	all := make([]byte, c.Cells())
	for i := range all {
		all[i] = byte(cell(c.words, uint32(i)))
	}
	return all
}

// drawKeys draws keys, with the rare ones that random ones never are: equal in one half, and with many leading zeroes.
func drawKeys(t *rapid.T, name string, most int) []uint64 {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, name+" seed"), 1))
	keys := make([]uint64, rapid.IntRange(0, most).Draw(t, name))
	for i := range keys {
		keys[i] = r.Uint64()
		switch r.IntN(8) {
		case 0:
			keys[i] >>= r.IntN(32)
		case 1:
			if i > 0 {
				keys[i] = keys[r.IntN(i)]
			}
		case 2:
			keys[i] &= 0xff000000ff000fff
		case 3:
			keys[i] &= ^uint64(0) << r.IntN(64)
		}
	}
	return keys
}

// It makes no difference when a sketch stops being exact.
func TestSketchIsPlain(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewSketch(256 << rapid.IntRange(0, 1).Draw(t, "doubled"))
		if err != nil {
			t.Fatal(err)
		}
		p := bits.TrailingZeros(uint(s.Cells()))
		m := &plain{p: p, cells: make([]byte, s.Cells()), hashes: map[uint32]bool{}}
		for _, key := range drawKeys(t, "keys", 300) {
			weigh := s.Weigh(key)
			got, want := s.Add(key), m.add(key)
			if weigh != got || math.Abs(got-want) > 1e-9*want {
				t.Fatalf("%#x: weighed %v, added %v, want %v", key, weigh, got, want)
			}
		}
		if !slices.Equal(cellsOf(s), m.cells) || math.Abs(s.Count()-m.count) > 1e-9*m.count {
			t.Fatalf("count %v, want %v", s.Count(), m.count)
		}
		if s.Exact() != (len(m.hashes) <= wordsOf(p)) {
			t.Fatalf("exact: %v with %d", s.Exact(), len(m.hashes))
		}
	})
}

// Merging is the union: the order does not matter, and doing it again changes nothing.
func TestSketchMerges(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		make := func(keys []uint64) *Sketch {
			s, _ := NewSketch(256)
			for _, key := range keys {
				s.Add(key)
			}
			return s
		}
		x := drawKeys(t, "x", 150)
		y := append(drawKeys(t, "y", 150), x[:rapid.IntRange(0, len(x)).Draw(t, "both")]...)
		a, b, both := make(x), make(y), make(slices.Concat(x, y))
		ab, ba := a.Clone(), b.Clone()
		if err := errors.Join(ab.Merge(b), ba.Merge(a)); err != nil {
			t.Fatal(err)
		}
		first, second := storedBytes(ab), storedBytes(ba)
		if !bytes.Equal(first, second) {
			t.Fatalf("the order matters: %v and %v", ab.Count(), ba.Count())
		}
		if !slices.Equal(cellsOf(ab), cellsOf(both)) || a.Exact() && b.Exact() && ab.Count() != both.Count() &&
			both.Exact() {
			t.Fatalf("no union: %v and %v, together %v", a.Count(), b.Count(), both.Count())
		}
		for _, o := range []*Sketch{a, b, ab} {
			if err := ab.Merge(o.Clone()); err != nil || !bytes.Equal(storedBytes(ab), first) {
				t.Fatalf("merging again changed it: %v", err)
			}
		}
		if !bytes.Equal(storedBytes(a), storedBytes(make(x))) || !bytes.Equal(storedBytes(b), storedBytes(make(y))) {
			t.Fatal("what was merged has changed")
		}
		// The count goes on from there.
		before := ab.Count()
		if w := ab.Add(0xffff_ffff_0000_0001); ab.Count() != before+w {
			t.Fatalf("%v and %v is %v", before, w, ab.Count())
		}
	})
}

func storedBytes(s interface {
	AppendBinary([]byte) ([]byte, error)
}) []byte {
	b, err := s.AppendBinary(nil)
	if err != nil {
		panic(err)
	}
	return b
}

func TestSketchIsStored(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		s, _ := NewSketch(256)
		for _, key := range drawKeys(t, "keys", 200) {
			s.Add(key)
		}
		var read Sketch
		b := storedBytes(s)
		if err := read.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(storedBytes(&read), b) || read.Count() != s.Count() || read.Changes() != s.Changes() ||
			read.chances != s.chances {
			t.Fatalf("%v was stored, %v read", s.Count(), read.Count())
		}
		for _, key := range drawKeys(t, "more", 50) {
			if s.Add(key) != read.Add(key) {
				t.Fatal("it does not go on as it did")
			}
		}
	})
}

// What is no sketch is refused, wherever it is cut off, and changes nothing.
func TestSketchRefuses(t *testing.T) {
	for _, n := range []int{0, 10, 1000} {
		b := storedBytes(sketchOf(someKeys(1, n)))
		s := sketchOf(someKeys(2, 3))
		for cut := range min(len(b), 200) {
			if err := s.UnmarshalBinary(b[:cut]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", cut, len(b), err)
			}
		}
		if err := s.UnmarshalBinary(append(slices.Clone(b), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes and one more: %v", len(b), err)
		}
		b[0] = sketchVersion + 1
		if err := s.UnmarshalBinary(b); !errors.Is(err, ErrNewer) {
			t.Errorf("of a later version: %v", err)
		}
		if s.Count() != 3 {
			t.Error("changed by what was refused")
		}
	}
}

func FuzzSketch(f *testing.F) {
	for _, n := range []int{0, 1, 10, 1000} {
		f.Add(storedBytes(sketchOf(someKeys(1, n))))
	}
	small, _ := NewSketch(256)
	for _, key := range someKeys(1, 100) {
		small.Add(key)
	}
	f.Add(storedBytes(small))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Sketch
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
			if w := s.Weigh(key); w != s.Add(key) || w < 0 || math.IsInf(w, 0) || math.IsNaN(w) {
				t.Errorf("%#x weighs %v", key, w)
			}
		}
		if err := s.Clone().Merge(&s); err != nil || math.IsNaN(s.Estimate()) || s.Count() > mostCount {
			t.Error(err, s.Estimate(), s.Count())
		}
	})
}

// Cells that can get no greater count, too: with as many hashes as there can be, most of them are full.
func TestFullCells(t *testing.T) {
	const p, cells = 8, 1 << 8
	words, each := make([]uint32, wordsOf(p)), math.Exp2(32-p)
	for i := range cells {
		v := 1 // as many cells of each value as are to be expected
		for v <= 32-p && math.Exp(-each/math.Exp2(float64(v))) < (float64(i)+0.5)/cells {
			v++
		}
		setCell(words, uint32(i), 0, uint32(v))
	}
	if got, want := estimateCells(words, p), each*cells; math.Abs(got-want) > want/10 {
		t.Errorf("%.0f hashes, want %.0f", got, want)
	}
}
