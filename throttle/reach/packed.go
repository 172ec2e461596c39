package reach

import (
	"encoding/binary"
	"math/bits"
)

// A packed set is a sorted list of different values below a bound, as Elias and Fano wrote them down: the lower bits of
// all values, and the upper bits as groups, of which each has a one for every value in it and then a zero. An index
// tells how many values there are before every 512th group, so that a look-up reads a few words.
//
// Its bytes: the head, the index (four bytes each), the upper bits in words of eight bytes, the lower bits, and
// padding, so that eight bytes can be read from everywhere.
type packed struct {
	index, highs, lows []byte
	bound              uint32 // values are below it
	n                  uint32
	low                uint8 // how many bits are lower ones
}

const (
	packedHead = 8 // n, low and three zeroes
	padding    = 8
	perIndex   = 512 // groups
)

// groups is how many there are, empty ones too.
func (p *packed) groups() uint64 { return uint64((p.bound-1)>>p.low) + 1 }

func (p *packed) indexes() uint64 { return (p.groups() + perIndex - 1) / perIndex }

// sizes are the bytes of the three parts.
func (p *packed) sizes() (index, highs, lows int) {
	return 4 * int(p.indexes()), int((uint64(p.n)+p.groups()+63)/64) * 8, int(uint64(p.n)*uint64(p.low)+7)/8 + padding
}

// open reads the head of a packed set, and returns what comes after the set. The set stays where it is.
func (p *packed) open(b []byte, bound uint32) (rest []byte, ok bool) {
	if len(b) < packedHead {
		return nil, false
	}
	p.bound, p.n, p.low = bound, binary.LittleEndian.Uint32(b), b[4]
	if p.n > MaxKnown || p.low > 31 || b[5] != 0 || b[6] != 0 || b[7] != 0 {
		return nil, false
	}
	index, highs, lows := p.sizes()
	if b = b[packedHead:]; len(b) < index+highs+lows {
		return nil, false
	}
	p.index, p.highs, p.lows = b[:index], b[index:index+highs], b[index+highs:index+highs+lows]
	return b[index+highs+lows:], true
}

// before is how many values there are before an indexed group.
func (p *packed) before(i uint64) uint64 {
	return uint64(min(binary.LittleEndian.Uint32(p.index[4*i:]), p.n))
}

func (p *packed) lower(i uint64) uint32 {
	at := i * uint64(p.low)
	return uint32(binary.LittleEndian.Uint64(p.lows[at>>3:])>>(at&7)) & (1<<p.low - 1)
}

func (p *packed) has(value uint32) bool { return p.hasAt(p.near(value)) }

// A position is where a value would be.
type position struct {
	value uint32
	at    uint64 // of the upper bits, where the last indexed group before it begins
	word  uint64 // the upper bits there
}

func (p *packed) near(value uint32) position {
	i := uint64(value>>p.low) / perIndex
	at := i*perIndex + p.before(i)
	if at>>6<<3 >= uint64(len(p.highs)) { // no set that was packed has that
		return position{value: value, at: at, word: ^uint64(0)}
	}
	return position{value: value, at: at, word: binary.LittleEndian.Uint64(p.highs[at>>6<<3:])}
}

// hasAt reports whether a value is in the set.
func (p *packed) hasAt(v position) bool {
	group := uint64(v.value >> p.low)
	at, ok := skipZeroes(p.highs, v.at, v.word, int(group%perIndex))
	if !ok {
		return false
	}
	want := v.value & (1<<p.low - 1)
	for at>>3 < uint64(len(p.highs)) {
		run := uint64(bits.TrailingZeros64(^(binary.LittleEndian.Uint64(p.highs[at>>6<<3:]) >> (at & 63))))
		first := at - group
		if first+run > uint64(p.n) { // no set that was packed has that
			return false
		}
		for i := range run {
			if p.lower(first+i) == want {
				return true
			}
		}
		if at += run; at&63 != 0 || run == 0 { // else it may go on in the next word
			return false
		}
	}
	return false
}

// skipZeroes returns the position after so many zeroes, if there are so many; x is the word that it begins in.
func skipZeroes(b []byte, at, x uint64, zeroes int) (uint64, bool) {
	if zeroes == 0 {
		return at, true
	}
	x = ^x & (^uint64(0) << (at & 63))
	for word := at >> 6; ; {
		n := bits.OnesCount64(x)
		if n >= zeroes {
			return word<<6 + nth(x, uint64(zeroes-1)) + 1, true
		}
		zeroes -= n
		if word++; word<<3 >= uint64(len(b)) {
			return 0, false
		}
		x = ^binary.LittleEndian.Uint64(b[word<<3:])
	}
}

// nth is the position of the n-th one of x, from 0. Which one is asked for is anybody's guess, so there is nothing to
// branch on: the ones up to each byte are counted in all bytes at once, and then the ones up to each bit of that byte.
func nth(x uint64, n uint64) uint64 {
	const each, tops = 0x0101010101010101, 0x8080808080808080
	sums := x - x>>1&0x5555555555555555
	sums = sums&0x3333333333333333 + sums>>2&0x3333333333333333
	sums = (sums + sums>>4) & 0x0f0f0f0f0f0f0f0f * each
	at := uint64(bits.OnesCount64(((n*each|tops)-sums)&tops)) * 8
	n -= sums << 8 >> at & 0xff
	ones := (x>>at&0xff*each&0x8040201008040201 + 0x7f7f7f7f7f7f7f7f) & tops >> 7 * each
	return at + uint64(bits.OnesCount64(((n*each|tops)-ones)&tops))
}

// A cursor reads all values of a packed set, in order.
type cursor struct {
	packed
	i    uint64 // the next value
	word uint64 // that the upper bits are read from
	ones uint64 // the ones of it that were not read yet
	next uint64 // the smallest that the next value can be
}

func (p *packed) all() *cursor {
	c := &cursor{packed: *p}
	if len(c.highs) > 0 {
		c.ones = binary.LittleEndian.Uint64(c.highs)
	}
	return c
}

// read returns the next value. It reports false after the last.
func (c *cursor) read() (value uint32, ok bool) {
	for c.i < uint64(c.n) {
		for c.ones == 0 {
			if c.word++; c.word<<3 >= uint64(len(c.highs)) {
				return 0, false
			}
			c.ones = binary.LittleEndian.Uint64(c.highs[c.word<<3:])
		}
		group := c.word<<6 + uint64(bits.TrailingZeros64(c.ones)) - c.i
		c.ones &= c.ones - 1
		v := group<<c.low | uint64(c.lower(c.i))
		c.i++
		if v < c.next || v >= uint64(c.bound) {
			continue // no set that was packed has that
		}
		c.next = v + 1
		return uint32(v), true
	}
	return 0, false
}

// A packer packs values, given in order.
type packer struct {
	packed
	acc  uint64 // lower bits that are not four bytes yet
	held uint8
}

func newPacker(bound uint32, n int) *packer {
	w := &packer{packed: packed{bound: bound, n: uint32(n)}}
	w.low = uint8(bits.Len32(bound/uint32(max(n, 1))) - 1)
	index, highs, lows := w.sizes()
	w.index, w.highs, w.lows = make([]byte, 0, index), make([]byte, highs), make([]byte, 0, lows)
	w.n = 0
	return w
}

func (w *packer) add(value uint32) {
	group := value >> w.low
	w.indexTo(uint64(group)/perIndex + 1)
	at := group + w.n
	w.highs[at>>3] |= 1 << (at & 7)
	w.acc |= uint64(value&(1<<w.low-1)) << w.held
	if w.held += w.low; w.held >= 32 {
		w.lows = binary.LittleEndian.AppendUint32(w.lows, uint32(w.acc))
		w.acc >>= 32
		w.held -= 32
	}
	w.n++
}

func (w *packer) indexTo(n uint64) {
	for uint64(len(w.index)) < 4*n {
		w.index = binary.LittleEndian.AppendUint32(w.index, w.n)
	}
}

func (w *packer) pack() *packed {
	w.indexTo(w.indexes())
	_, highs, lows := w.sizes()
	var tail [16]byte // the bits that are left, and the padding
	binary.LittleEndian.PutUint64(tail[:], w.acc)
	w.highs = w.highs[:highs]
	w.lows = append(w.lows, tail[:lows-len(w.lows)]...)
	return &w.packed
}

func (p *packed) bytes() int { return packedHead + len(p.index) + len(p.highs) + len(p.lows) }

func (p *packed) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, p.n)
	b = append(b, p.low, 0, 0, 0)
	return append(append(append(b, p.index...), p.highs...), p.lows...)
}
