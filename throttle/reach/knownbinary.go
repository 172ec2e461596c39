package reach

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// The settled part is its version, the number of its generations, two zeroes, a checksum of everything after it, the
// number of times that something was settled, and then each generation as a packed set, the newest first, since it has
// the most. It is used as it is stored. The recent part is its version, the number of hashes, and the hashes in order.
const (
	settledVersion = 1
	settledHead    = 16
	recentVersion  = 1
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

// AppendSettled appends the settled part, which is nothing while nothing was settled.
func (k *Known) AppendSettled(b []byte) ([]byte, error) { return append(b, k.settled...), nil }

// SetSettled reads what AppendSettled wrote, all of b, and keeps b. On ErrNewer or ErrCorrupt, the set is as before.
func (k *Known) SetSettled(b []byte) error {
	if len(b) == 0 {
		k.settled, k.n, k.times = nil, 0, 0
		return nil
	}
	if err := checkVersion("settled recipients", b, settledVersion); err != nil {
		return err
	}
	_, n, ok := openSettled(b)
	if !ok || binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(b[8:], checksums) {
		return corrupt("settled recipients", b)
	}
	k.settled, k.n, k.times = b[:len(b):len(b)], n, binary.LittleEndian.Uint64(b[8:])
	return nil
}

// openSettled returns the generations, the first one first, and how many recipients they have. It looks at all that a
// look-up relies on.
func openSettled(b []byte) (sets []packed, n int, ok bool) {
	if len(b) < settledHead || b[1] == 0 || int(b[1]) > len(generations) || b[2] != 0 || b[3] != 0 {
		return nil, 0, false
	}
	sets = make([]packed, b[1])
	rest := b[settledHead:]
	for g := len(sets) - 1; g >= 0; g-- {
		if rest, ok = sets[g].open(rest, generations[g].bound); !ok {
			return nil, 0, false
		}
		n += int(sets[g].n)
	}
	return sets, n, len(rest) == 0 && n <= MaxKnown
}

// inSettled looks in all generations. It first finds out where to look in each, and then waits for memory once.
func inSettled(b []byte, h uint32) bool {
	var (
		sets      [len(generations)]packed
		positions [len(generations)]position
		rest      = b[settledHead:]
		newest    = int(b[1]) - 1
	)
	for g := newest; g >= 0; g-- {
		rest, _ = sets[g].open(rest, generations[g].bound)
		positions[g] = sets[g].near(value(h, generations[g].bound))
	}
	for g := newest; g >= 0; g-- {
		if sets[g].hasAt(positions[g]) {
			return true
		}
	}
	return false
}

func appendSettled(times uint64, sets []packed) []byte {
	size := settledHead
	for i := range sets {
		size += sets[i].bytes()
	}
	b := make([]byte, settledHead, size)
	b[0], b[1] = settledVersion, byte(len(sets))
	binary.LittleEndian.PutUint64(b[8:], times)
	for i := len(sets) - 1; i >= 0; i-- {
		b = sets[i].appendTo(b)
	}
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], checksums))
	return b
}

// AppendRecent appends the recent part.
func (k *Known) AppendRecent(b []byte) ([]byte, error) {
	b = slices.Grow(b, 3+4*len(k.recent))
	b = append(b, recentVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(len(k.recent)))
	for _, h := range k.recent {
		b = binary.BigEndian.AppendUint32(b, h)
	}
	return b, nil
}

// SetRecent reads what AppendRecent wrote, all of b. On ErrNewer or ErrCorrupt, the set is as before.
func (k *Known) SetRecent(b []byte) error {
	if err := checkVersion("recent recipients", b, recentVersion); err != nil {
		return err
	}
	if len(b) < 3 || len(b) != 3+4*int(binary.BigEndian.Uint16(b[1:])) || len(b) > 3+4*maxRecent {
		return corrupt("recent recipients", b)
	}
	recent := words(b[3:])
	if !ascending(recent) {
		return corrupt("recent recipients", b)
	}
	k.recent = recent
	return nil
}

func ascending(words []uint32) bool {
	for i := 1; i < len(words); i++ {
		if words[i-1] >= words[i] {
			return false
		}
	}
	return true
}
