package reach

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// hashes is how many different values there are of the half of a key that a sketch looks at.
const hashes = 1 << 32

// A Sketch counts different recipients in up to 3 KB: exactly while they are few, then as a HyperLogLog. Most callers
// want Weigh before a message is accepted, and Add after. The zero value has 4096 cells. Goroutines must not share it.
type Sketch struct {
	// while it is exact: the upper halves of all keys, sorted; then the cells (cells.go), which take as much
	words   []uint32
	count   float64 // the sum of all weights; not while it is exact
	chances uint64  // how many of the hashes would change a cell; not while it is exact
	changes uint32
	bits    uint8 // of the index of a cell; 0: those of DefaultCells
	dense   bool
}

// NewSketch returns a sketch with so many cells, a power of two from 256 to 65536.
func NewSketch(cells int) (*Sketch, error) {
	if cells < MinCells || cells > MaxCells || cells&(cells-1) != 0 {
		return nil, fmt.Errorf("%w: %d is not a power of two from %d to %d", ErrCells, cells, MinCells, MaxCells)
	}
	return &Sketch{bits: uint8(bits.TrailingZeros(uint(cells)))}, nil
}

// Cells is how many cells it has.
func (s *Sketch) Cells() int { return 1 << s.indexBits() }

func (s *Sketch) indexBits() int {
	if s.bits == 0 {
		return bits.TrailingZeros(DefaultCells)
	}
	return int(s.bits)
}

// Add adds a recipient, by its keyed hash. It returns 0 where nothing changed (the source's result code 0), and else
// how many recipients such a change stands for: 1 while the sketch is exact, then the inverse of its probability.
func (s *Sketch) Add(key uint64) (weight float64) {
	h := uint32(key >> 32)
	if s.dense {
		return s.addDense(h)
	}
	at, found := search(s.words, h)
	if found {
		return 0
	}
	s.grow()
	s.words = slices.Insert(s.words, at, h)
	if len(s.words) > wordsOf(s.indexBits()) {
		s.toCells()
	}
	return 1
}

func (s *Sketch) addDense(h uint32) (weight float64) {
	p := s.indexBits()
	i, v := cellOf(h, p)
	old := cell(s.words, i)
	if v <= old {
		return 0
	}
	weight = hashes / float64(s.chances)
	setCell(s.words, i, old, v)
	s.chances -= chancesOf(old, p) - chancesOf(v, p)
	s.count += weight
	s.changes++
	return weight
}

// grow allocates one more cell. A small sketch grows in small steps: most users write to few.
func (s *Sketch) grow() {
	if n := len(s.words); n == cap(s.words) {
		larger := make([]uint32, n, n+max(4, n/4))
		copy(larger, s.words)
		s.words = larger
	}
}

// Weigh returns what Add would, and changes nothing.
func (s *Sketch) Weigh(key uint64) float64 {
	h := uint32(key >> 32)
	if !s.dense {
		if _, found := search(s.words, h); found {
			return 0
		}
		return 1
	}
	if i, v := cellOf(h, s.indexBits()); v <= cell(s.words, i) {
		return 0
	}
	return hashes / float64(s.chances)
}

// Count is how many recipients were added, by the sum of all weights; after a merge by the cells.
func (s *Sketch) Count() float64 {
	if !s.dense {
		return float64(len(s.words))
	}
	return s.count
}

// Estimate is how many recipients were added, by the cells alone.
func (s *Sketch) Estimate() float64 {
	if !s.dense {
		return float64(len(s.words))
	}
	return estimateCells(s.words, s.indexBits())
}

// Changes is how often Add changed something: the source's unique counter. After a merge it is the greater of both.
func (s *Sketch) Changes() uint64 {
	if !s.dense {
		return uint64(len(s.words))
	}
	return uint64(s.changes)
}

// Exact reports whether the sketch is still exact.
func (s *Sketch) Exact() bool { return !s.dense }

// toCells gives up exactness: the cells are as if everything had been added to them from the start.
func (s *Sketch) toCells() {
	p := s.indexBits()
	keys := s.words
	s.words, s.dense = make([]uint32, wordsOf(p)), true
	s.count, s.changes = float64(len(keys)), uint32(len(keys))
	raise(s.words, keys, p)
	s.chances = allChances(s.words, p)
}

// Merge adds everything that is in another sketch with as many cells: each cell is the greater of both.
func (s *Sketch) Merge(o *Sketch) error {
	p := s.indexBits()
	if p != o.indexBits() {
		return fmt.Errorf("%w: %d and %d cannot be merged", ErrCells, s.Cells(), o.Cells())
	}
	if !s.dense && !o.dense {
		s.words = union(s.words, o.words)
		if len(s.words) > wordsOf(p) {
			s.toCells()
		}
		return nil
	}
	other, otherCount, otherChanges := o.words, o.count, o.changes
	if !o.dense {
		other = make([]uint32, wordsOf(p))
		raise(other, o.words, p)
		otherCount, otherChanges = float64(len(o.words)), uint32(len(o.words))
	}
	if !s.dense {
		s.toCells()
	}
	more, fewer := compareCells(other, s.words)
	switch {
	case more && fewer:
		maxCells(s.words, other)
		s.count = estimateCells(s.words, p)
	case more: // everything is in the other
		copy(s.words, other)
		s.count = otherCount
	case !fewer: // the same: the order does not matter
		s.count = max(s.count, otherCount)
	}
	s.chances = allChances(s.words, p)
	s.changes = max(s.changes, otherChanges)
	return nil
}

// search finds where in a sorted list a hash is or belongs. It does not branch on hashes, which cannot be guessed.
func search(list []uint32, h uint32) (at int, found bool) {
	for n := uint(len(list)); n > 0; {
		half := (n + 1) / 2
		less := uint((uint64(list[uint(at)+half-1]) - uint64(h)) >> 63) // 1 where it is
		at += int(half & -less)
		n -= half
	}
	return at, at < len(list) && list[at] == h
}

// union merges two sorted lists without doubles.
func union(a, b []uint32) []uint32 {
	all := make([]uint32, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			all, a = append(all, a[0]), a[1:]
		case a[0] > b[0]:
			all, b = append(all, b[0]), b[1:]
		default:
			a = a[1:]
		}
	}
	return slices.Clip(append(append(all, a...), b...))
}

// Clone returns a copy.
func (s *Sketch) Clone() *Sketch {
	c := *s
	c.words = slices.Clip(slices.Clone(s.words))
	return &c
}

// Bytes is how much memory it takes, and AppendBinary about so much to store.
func (s *Sketch) Bytes() int { return int(unsafe.Sizeof(*s)) + 4*cap(s.words) }

// sketchVersion is the first byte of a stored sketch. The second one tells the bits of an index, and whether it is
// exact. An exact sketch has the number of keys and their upper halves, sorted; others have count, changes and cells.
const sketchVersion = 1

const sketchDense = 0x80

// mostCount is more than all weights that a sketch can ever give, together.
const mostCount = 1 << 53

// AppendBinary appends the sketch. It is versioned. There is no error.
func (s *Sketch) AppendBinary(b []byte) ([]byte, error) {
	b = slices.Grow(b, 16+4*len(s.words))
	if s.dense {
		b = append(b, sketchVersion, byte(s.indexBits())|sketchDense)
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(s.count))
		b = binary.BigEndian.AppendUint32(b, s.changes)
	} else {
		b = append(b, sketchVersion, byte(s.indexBits()))
		b = binary.BigEndian.AppendUint16(b, uint16(len(s.words)))
	}
	for _, w := range s.words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary wrote, all of b. On ErrNewer or ErrCorrupt, the sketch is as before.
func (s *Sketch) UnmarshalBinary(b []byte) error {
	if err := checkVersion("a sketch", b, sketchVersion); err != nil {
		return err
	}
	read, ok := readSketch(b)
	if !ok {
		return corrupt("a sketch", b)
	}
	*s = read
	return nil
}

func readSketch(b []byte) (s Sketch, ok bool) {
	if len(b) < 4 {
		return s, false
	}
	s.bits, s.dense = b[1]&^sketchDense, b[1]&sketchDense != 0
	p := int(s.bits)
	if p < 8 || p > 16 {
		return s, false
	}
	if !s.dense {
		n := int(binary.BigEndian.Uint16(b[2:]))
		if n > wordsOf(p) || len(b) != 4+4*n {
			return s, false
		}
		s.words = words(b[4:])
		return s, ascending(s.words)
	}
	if len(b) != 14+4*wordsOf(p) {
		return s, false
	}
	s.count = math.Float64frombits(binary.BigEndian.Uint64(b[2:]))
	s.changes = binary.BigEndian.Uint32(b[10:])
	s.words = words(b[14:])
	s.chances = allChances(s.words, p)
	return s, s.count >= 0 && s.count <= mostCount && validCells(s.words, p)
}

func words(b []byte) []uint32 {
	if len(b) == 0 {
		return nil
	}
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	return words
}

// validCells reports whether no cell is greater than it can be, and nothing stands beside them.
func validCells(words []uint32, p int) bool {
	for i := range uint32(len(words) * cellsWord) {
		if v := cell(words, i); int(v) > 33-p || v > 0 && i >= 1<<p {
			return false
		}
	}
	for _, w := range words {
		if w>>(cellsWord*cellBits) != 0 {
			return false
		}
	}
	return true
}
