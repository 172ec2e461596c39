package reach

import (
	"encoding/binary"
	"slices"
)

// A stored filter is its version, the number of its layers, and their words.
const filterVersion = 1

// AppendBinary appends the filter. It is versioned. There is no error.
func (f *Filter) AppendBinary(b []byte) ([]byte, error) {
	b = slices.Grow(b, 2+8*len(f.words))
	b = append(b, filterVersion, byte(f.layers()))
	for _, w := range f.words {
		b = binary.BigEndian.AppendUint64(b, w)
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary wrote, all of b. On ErrNewer or ErrCorrupt, the filter is as before.
func (f *Filter) UnmarshalBinary(b []byte) error {
	if err := checkVersion("a filter", b, filterVersion); err != nil {
		return err
	}
	if len(b) < 2 || b[1] > maxLayers || len(b) != 2+8*firstLayer*(1<<b[1]-1) {
		return corrupt("a filter", b)
	}
	var read Filter
	if b[1] > 0 {
		read.words = make([]uint64, firstLayer*(1<<b[1]-1))
	}
	for i := range read.words {
		read.words[i] = binary.BigEndian.Uint64(b[2+8*i:])
	}
	read.recount()
	*f = read
	return nil
}
