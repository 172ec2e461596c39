package reach

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// A filter is made of layers, each twice as large as the one before: the first has four words of 64 bits. A layer takes
// one recipient for every 16 bits, and then the next is begun. With 10 bits set for each, a full layer is wrong once in
// 2100 times, and all 16 together less than once in a hundred.
const (
	firstLayer  = 4  // words
	maxLayers   = 16 // for 1,048,560 recipients
	layerHashes = 10
	layerFull   = 0.46473857148100998 // of the bits are set: 1 - e^(-10/16)
)

// A Filter is a Bloom filter that grows: the source's other structure. It counts different recipients, and knows them.
// Those beyond the first million stay new. The zero value is empty. It is not safe for concurrent use.
type Filter struct {
	words []uint64 // all layers, one after the other
	set   int      // bits of the last layer
	full  float64  // recipients in the layers before
}

func (f *Filter) layers() int { return bits.Len(uint(len(f.words) / firstLayer)) }

func (f *Filter) layer(i int) []uint64 {
	from := firstLayer * (1<<i - 1)
	return f.words[from : from+firstLayer<<i]
}

// hash returns the first bit of a key in a layer, and the distance to the next.
func hash(key uint64, layer int) (at, step uint32) {
	x := key + uint64(layer+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return uint32(x >> 32), uint32(x) | 1
}

// Has reports whether a recipient was added. It is wrong for one in a hundred that were not.
func (f *Filter) Has(key uint64) bool {
	for i := f.layers() - 1; i >= 0; i-- {
		if inLayer(f.layer(i), key, i) {
			return true
		}
	}
	return false
}

func inLayer(words []uint64, key uint64, layer int) bool {
	mask := uint32(len(words)*64 - 1)
	at, step := hash(key, layer)
	for i := range uint32(layerHashes) {
		if words[at&mask>>6]>>(at&63)&1 == 0 {
			return false
		}
		at += step
		step += i // without it, keys would share more bits than by chance
	}
	return true
}

// lastFull reports whether the last layer takes nobody any more, and isFull whether the filter does not.
func (f *Filter) lastFull() bool {
	return float64(f.set) >= layerFull*float64(64*len(f.layer(f.layers()-1)))
}

func (f *Filter) isFull() bool { return f.layers() == maxLayers && f.lastFull() }

// Add adds a recipient, and reports whether anything changed.
func (f *Filter) Add(key uint64) bool {
	if f.Has(key) {
		return false
	}
	last := f.layers() - 1
	if last < 0 || f.lastFull() {
		if f.isFull() {
			return false
		}
		if last >= 0 {
			f.full += inSet(f.set, 64*len(f.layer(last)))
		}
		last++
		f.words = append(make([]uint64, 0, firstLayer*(2<<last-1)), f.words...)[:firstLayer*(2<<last-1)]
		f.set = 0
	}
	f.set += mark(f.layer(last), key, last)
	return true
}

func mark(words []uint64, key uint64, layer int) (set int) {
	mask := uint32(len(words)*64 - 1)
	at, step := hash(key, layer)
	for i := range uint32(layerHashes) {
		w, bit := &words[at&mask>>6], uint64(1)<<(at&63)
		if *w&bit == 0 {
			*w |= bit
			set++
		}
		at += step
		step += i
	}
	return set
}

func inSet(set, of int) float64 {
	set = min(set, of-1)
	return -float64(of) / layerHashes * math.Log1p(-float64(set)/float64(of))
}

// Count is how many recipients were added, by the bits that are set.
func (f *Filter) Count() float64 {
	if len(f.words) == 0 {
		return 0
	}
	return f.full + inSet(f.set, 64*len(f.layer(f.layers()-1)))
}

// Bytes is how much memory it takes.
func (f *Filter) Bytes() int { return int(unsafe.Sizeof(*f)) + 8*cap(f.words) }

func (f *Filter) recount() {
	f.full, f.set = 0, 0
	for i := range f.layers() {
		if i > 0 {
			f.full += inSet(f.set, 64*len(f.layer(i-1)))
		}
		f.set = ones(f.layer(i))
	}
}

func ones(words []uint64) (n int) {
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Merge adds everything that is in another filter. Filters of different people are wrong more often together than each
// of them: where more than 60% of the bits of a layer would be set, it is ErrFull, and the filter is as before.
func (f *Filter) Merge(o *Filter) error {
	larger, smaller := f, o
	if len(o.words) > len(f.words) {
		larger, smaller = o, f
	}
	merged := Filter{words: append([]uint64(nil), larger.words...)}
	for i, w := range smaller.words {
		merged.words[i] |= w
	}
	for i := range merged.layers() {
		if words := merged.layer(i); ones(words)*5 > 3*64*len(words) {
			return fmt.Errorf("%w: filters of %.0f and %.0f recipients cannot be merged", ErrFull, f.Count(), o.Count())
		}
	}
	merged.recount()
	*f = merged
	return nil
}

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
