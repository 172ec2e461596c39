package heavy

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// The size of a sketch: so many sets of so many names, each of at most MaxName bytes.
const (
	sets    = 16
	ways    = 16
	Places  = sets * ways
	MaxName = 256
)

// Bytes is what a sketch takes when all its sets are in use.
const Bytes = sets * (setBytes + ways*slotBytes)

const (
	setBytes  = 256
	slotBytes = 8 + 8 + 8 + 8 + MaxName
)

// It compiles only while nothing is larger.
var (
	_ [setBytes - unsafe.Sizeof(set{})]byte
	_ [slotBytes - unsafe.Sizeof(slot{})]byte
)

// A Sketch counts names. Make one with New. It is safe for concurrent use; Add allocates nothing once its set is in
// use, and never waits for another goroutine.
type Sketch struct {
	seed   maphash.Seed
	half   int64 // the half-life, in nanoseconds
	missed atomic.Uint64
	sets   [sets]set
}

// A set is one part of the sketch. Its hashes and counts are together, apart from the names: they are all that most
// calls look at.
type set struct {
	mu     sync.Mutex
	random uint32
	ends   int64 // when the half-life ends that the counts are of
	hashes [ways]uint64
	counts [ways]uint32 // 0 where the slot is free
	slots  *[ways]slot  // nil while nothing was added
	_      [32]byte     // or neighbours would share a cache line
}

// A slot is what is kept of a name beside its count.
type slot struct {
	total       uint64
	first, last int64 // nanoseconds since the epoch
	over        uint32
	size        uint16
	kind        uint8
	name        [MaxName]byte
}

// An Entry is a name and how often it occurred.
type Entry struct {
	Kind  uint8
	Name  string
	Count uint32 // lately: halved every half-life. Too high by at most Over
	Over  uint32
	Total uint64 // since First: exact, but for what was missed
	First time.Time
	Last  time.Time
}

// Sure is how much of the count certainly belongs to the name.
func (e *Entry) Sure() uint32 { return e.Count - e.Over }

// New returns an empty sketch whose counts halve every half-life.
func New(halfLife time.Duration) *Sketch {
	s := &Sketch{seed: maphash.MakeSeed(), half: int64(max(halfLife, 1))}
	for i := range s.sets {
		s.sets[i].random = uint32(maphash.Bytes(s.seed, []byte{byte(i)})) | 1
	}
	return s
}

// Add counts n for a name of a kind. Of a name that is too long, the first MaxName bytes are kept. When another
// goroutine is at the same set, nothing is counted but Missed.
func (s *Sketch) Add(now time.Time, kind uint8, name string, n uint32) {
	add(s, maphash.String(s.seed, name)+uint64(kind)<<56, now.UnixNano(), kind, name, n)
}

// AddBytes is Add for a name in a buffer, which is not kept.
func (s *Sketch) AddBytes(now time.Time, kind uint8, name []byte, n uint32) {
	add(s, maphash.Bytes(s.seed, name)+uint64(kind)<<56, now.UnixNano(), kind, name, n)
}

func add[T string | []byte](s *Sketch, hash uint64, now int64, kind uint8, name T, n uint32) {
	if n == 0 {
		return
	}
	if hash == 0 {
		hash = 1
	}
	t := &s.sets[hash%sets]
	if !t.mu.TryLock() {
		s.missed.Add(1)
		return
	}
	defer t.mu.Unlock()
	t.age(now, s.half)
	at := t.find(hash)
	if at < 0 {
		least, c := t.least()
		if c > 0 && !t.chance(n, c) {
			return
		}
		if t.slots == nil {
			t.slots = new([ways]slot)
		}
		at = least
		t.hashes[at] = hash
		p := &t.slots[at]
		p.over, p.total, p.first, p.kind = c, 0, now, kind
		clear(p.name[:p.size])
		p.size = uint16(copy(p.name[:], name))
	}
	p := &t.slots[at]
	p.total += uint64(n)
	p.last = now
	t.counts[at] += min(n, math.MaxUint32-t.counts[at])
}

// find returns the slot of a name, or -1. The hash of a free slot is 0.
func (t *set) find(hash uint64) int {
	for i, h := range &t.hashes {
		if h == hash {
			return i
		}
	}
	return -1
}

// least returns the slot with the smallest count.
func (t *set) least() (at int, count uint32) {
	count = math.MaxUint32
	for i, c := range &t.counts {
		if c < count {
			at, count = i, c
		}
	}
	return at, count
}

// chance is true with a probability of n/(c+n).
func (t *set) chance(n, c uint32) bool {
	x := t.random
	x ^= x << 13
	x ^= x >> 17
	x ^= x << 5
	t.random = x
	return uint64(x)*(uint64(c)+uint64(n))>>32 < uint64(n)
}

// age halves the counts for each half-life that has begun since the last call. A clock that is set back ages nothing.
func (t *set) age(now, half int64) {
	if now < t.ends && now >= t.ends-half {
		return
	}
	ends := (now/half + 1) * half
	passed := (ends - t.ends) / half
	t.ends = ends
	if passed < 0 || t.slots == nil {
		return
	}
	for i := range t.counts {
		if t.counts[i] == 0 {
			continue
		}
		p := &t.slots[i]
		t.counts[i] >>= min(passed, 32)
		p.over >>= min(passed, 32)
		if since := now - p.last; t.counts[i] == 0 && since >= 0 && since < half {
			t.counts[i] = 1 // or one that came just before the end would be forgotten at once
		}
		if t.counts[i] == 0 {
			t.hashes[i] = 0
			*p = slot{}
		}
	}
}

// Top returns the names with the highest sure counts, at most so many, the highest first. It also forgets what is too
// old: whoever keeps a sketch calls it, or Age, from time to time.
func (s *Sketch) Top(now time.Time, most int) []Entry {
	all := make([]Entry, 0, Places)
	for i := range s.sets {
		all = s.sets[i].entries(all, now.UnixNano(), s.half)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Sure(), a.Sure()), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), max(most, 0))]
}

func (t *set) entries(all []Entry, now, half int64) []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.age(now, half)
	for i, c := range t.counts {
		if c == 0 {
			continue
		}
		p := &t.slots[i]
		all = append(all, Entry{Kind: p.kind, Name: string(p.name[:p.size]), Count: c, Over: p.over, Total: p.total,
			First: time.Unix(0, p.first), Last: time.Unix(0, p.last)})
	}
	return all
}

// Age forgets what is too old.
func (s *Sketch) Age(now time.Time) {
	for i := range s.sets {
		t := &s.sets[i]
		t.mu.Lock()
		t.age(now.UnixNano(), s.half)
		t.mu.Unlock()
	}
}

// Missed is how many calls of Add found another goroutine at work, since the start.
func (s *Sketch) Missed() uint64 { return s.missed.Load() }
