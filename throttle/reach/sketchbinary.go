package reach

import (
	"encoding/binary"
	"math"
	"slices"
)

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
