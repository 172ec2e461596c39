package reach

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"unsafe"
)

// MaxKnown is how many recipients of one user are known. Those beyond it stay new.
const MaxKnown = 1 << 20

// generations say how the settled part is cut: the first recipients make up the first generation, and so on. What is
// settled has lost most of its hash, so later ones, of which there are more, are told apart by more. The number of
// values over their bound is the share of strangers who seem to be known: 0.95% in all generations together. Each bound
// is a multiple of the one before, so that a value of a later generation also gives the one of an earlier.
var generations = [...]struct {
	size  int    // how many it is for
	bound uint32 // hashes are made values below it
}{
	{24_576, firstBound},
	{159_744, 8 * firstBound},
	{MaxKnown - 24_576 - 159_744, 56 * firstBound},
}

const firstBound = 24_576 * 256

// How many recent recipients there may be: a 64th of all, within bounds.
const (
	minRecent   = 64
	maxRecent   = 4096
	recentShare = 64
)

// A Known is the set of the recipients that a user has written to: 1.5 bytes each, one in a hundred strangers seems to
// be in it. It has two parts: the settled one is packed and rarely changes; what is added goes to the recent one, and
// is settled when that gets large. The zero value is empty. It is not safe for concurrent use.
type Known struct {
	recent  []uint32 // the lower halves of the keys, sorted
	settled []byte   // as it is stored, not to be changed
	n       int      // settled ones
	times   uint64   // that something was settled
}

// Has reports whether a recipient is known.
func (k *Known) Has(key uint64) bool {
	if _, found := search(k.recent, uint32(key)); found {
		return true
	}
	return len(k.settled) > 0 && inSettled(k.settled, uint32(key))
}

// value is what a hash is in a generation.
func value(h, bound uint32) uint32 { return uint32(uint64(h) * uint64(bound) >> 32) }

// Add makes a recipient known. It reports false for one that is known, or when MaxKnown is reached.
func (k *Known) Add(key uint64) bool {
	h := uint32(key)
	at, found := search(k.recent, h)
	if found || len(k.settled) > 0 && inSettled(k.settled, h) || k.Len() >= MaxKnown {
		return false
	}
	if n := len(k.recent); n == cap(k.recent) {
		k.recent = append(make([]uint32, 0, min(n+max(4, n/4, k.n/recentShare/4), k.mostRecent())), k.recent...)
	}
	k.recent = slices.Insert(k.recent, at, h)
	if len(k.recent) >= k.mostRecent() {
		k.settle()
	}
	return true
}

func (k *Known) mostRecent() int { return max(minRecent, min(k.n/recentShare, maxRecent)) }

// settle packs the recent ones into the newest generation that is not full. One may get a few more than its size.
func (k *Known) settle() {
	sets, _, _ := openSettled(k.settled)
	g := max(len(sets)-1, 0)
	if len(sets) > 0 && int(sets[g].n) >= generations[g].size && g+1 < len(generations) {
		g++
	}
	if g == len(sets) {
		sets = append(sets, packed{bound: generations[g].bound})
	}
	w := newPacker(sets[g].bound, int(sets[g].n)+len(k.recent))
	merge(w, sets[g].all(), k.recent)
	k.n += int(w.n) - int(sets[g].n)
	k.times++
	sets[g] = *w.pack()
	k.settled = appendSettled(k.times, sets)
	k.recent = nil // frees the memory
}

func merge(w *packer, c *cursor, recent []uint32) {
	v, more := c.read()
	last := int64(-1)
	for _, h := range recent {
		r := value(h, w.bound)
		for ; more && v < r; v, more = c.read() {
			w.add(v)
		}
		if (!more || v > r) && int64(r) != last { // two recent ones may be one from now on
			w.add(r)
		}
		last = int64(r)
	}
	for ; more; v, more = c.read() {
		w.add(v)
	}
}

// Len is how many there are.
func (k *Known) Len() int { return k.n + len(k.recent) }

// Bytes is how much memory both parts take.
func (k *Known) Bytes() int { return int(unsafe.Sizeof(*k)) + 4*cap(k.recent) + cap(k.settled) }

// Generation counts how often something was settled: another one than before means another settled part.
func (k *Known) Generation() uint64 { return k.times }

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

// knownVersion is the first byte of what is stored beside a state. Then comes what there is, the filter with its
// length, and the settled part of the known recipients.
const knownVersion = 1

// What is stored beside a state.
const (
	rowFilter = 1 << iota
	rowSettled
)

// AppendKnown appends what changes rarely: the settled part of the known recipients, and a Bloom filter, which changes
// with every new recipient. It is stored by itself, whenever KnownChanged. It may be nothing. There is no error.
func (s *State) AppendKnown(b []byte) ([]byte, error) {
	if !s.settled || s.missing {
		return b, nil
	}
	has := len(b) + 1
	b = append(b, knownVersion, 0)
	if s.filter != nil {
		b[has] |= rowFilter
		at := len(b)
		b, _ = s.filter.AppendBinary(append(b, 0, 0, 0, 0))
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	if s.known != nil && s.known.Generation() > 0 {
		b[has] |= rowSettled
		b, _ = s.known.AppendSettled(b)
	}
	return b, nil
}

// KnownChanged reports whether AppendKnown appends another thing than at SetKnown or KnownStored.
func (s *State) KnownChanged() bool {
	return !s.missing && (s.unstored || s.known != nil && s.known.Generation() != s.stored)
}

// KnownStored notes that what AppendKnown appends is stored.
func (s *State) KnownStored() {
	s.unstored, s.stored = false, 0
	if s.known != nil {
		s.stored = s.known.Generation()
	}
}

// NeedsKnown reports whether the state has a settled part that SetKnown has not given it yet.
func (s *State) NeedsKnown() bool { return s.missing }

// SetKnown gives the state its settled part, as AppendKnown wrote it: ErrNewer or ErrCorrupt, and the state is as
// before. b is kept and not changed. Where it is lost, an empty b says so: the set is begun anew, as one that the rules
// did not ask for before, and a user without anything else known is a newcomer again.
func (s *State) SetKnown(b []byte) error {
	if len(b) == 0 {
		if s.missing {
			s.lose()
		}
		return nil
	}
	r, err := newReader("known recipients", b, knownVersion)
	if err != nil {
		return err
	}
	has := r.Byte()
	if has == 0 || has > rowFilter|rowSettled {
		r.Fail()
	}
	var filter *Filter
	if has&rowFilter != 0 {
		filter = new(Filter)
		r.part(uint64(r.Uint32()), filter.UnmarshalBinary)
	}
	known := new(Known)
	if s.known != nil {
		*known = *s.known
	}
	if has&rowSettled != 0 {
		if len(r.Left) == 0 {
			r.Fail()
		}
		r.part(uint64(len(r.Left)), known.SetSettled)
	}
	if err := r.end(); err != nil {
		return err
	}
	if s.known != nil || known.Len() > 0 {
		s.known = known
	}
	s.filter, s.filtered = filter, filter != nil
	s.settled, s.missing = true, false
	s.KnownStored()
	return nil
}

// lose goes on without the settled part.
func (s *State) lose() {
	s.missing, s.settled = false, false
	left := s.gap(s.at)
	if s.known != nil {
		s.knownBy.merge(left)
		s.stored = 0
	}
	if s.filtered {
		s.filter, s.filterBy, s.settled, s.unstored = new(Filter), left, true, true
		if left.gap == 0 {
			s.since = s.at
		}
	}
}
