package tables

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// An Entry is what a table keeps of one key. Worth says what would be lost with it at a time, which is in the unit that
// the caller passes to Find and Enter. The entry that is worth least makes room for another key. An entry that is worth
// nothing counts as if it were not there. One that is worth Stays never makes room.
type Entry[E any] interface {
	*E
	Worth(now int64) uint64
}

// Stays is the worth of an entry that no other key pushes out.
const Stays = math.MaxUint64

// stripes is how many locks a table has.
const stripes = 64

// Sets is a table of sets of entries. Make one with NewSets. Goroutines may share it.
//
// It knows a key by 32 bits of its hash within a set. So two keys are taken for one with a probability of ways in 2^32.
type Sets[E any, P Entry[E]] struct {
	mask, ways uint64
	memory     atomic.Pointer[memory[E]] // nil until the first entry is made
	locks      [stripes]struct {
		sync.Mutex
		_ [56]byte // a cache line of its own
	}
}

type memory[E any] struct {
	tags    []uint32 // 0 where an entry is free
	entries []E
}

// NewSets returns a table of so many sets, rounded up to a power of two, with so many entries each. It takes its memory
// when the first entry is made.
func NewSets[E any, P Entry[E]](sets, ways int) *Sets[E, P] {
	return &Sets[E, P]{mask: 1<<bits.Len64(uint64(max(sets, 1)-1)) - 1, ways: uint64(max(ways, 1))}
}

// Empty reports whether no entry was ever made.
func (t *Sets[E, P]) Empty() bool { return t.memory.Load() == nil }

// Lock locks the set of a hash, for one key. The low bits of the hash choose the set, and the high ones are of the key:
// keys of one set may be given the same low bits. Unlock must be called, and other methods of the table must not be
// before that.
func (t *Sets[E, P]) Lock(hash uint64) Set[E, P] {
	at := hash & t.mask
	lock := &t.locks[at%stripes].Mutex
	lock.Lock()
	return Set[E, P]{table: t, lock: lock, from: at * t.ways, tag: max(1, uint32(hash>>32))}
}

// A Set is a set of a table that is locked, and a key to look for.
type Set[E any, P Entry[E]] struct {
	table *Sets[E, P]
	lock  *sync.Mutex
	from  uint64
	tag   uint32
}

// Unlock unlocks the set. Its entries must not be used any more.
func (s Set[E, P]) Unlock() { s.lock.Unlock() }

// Find returns the entry of the key, or nil.
func (s Set[E, P]) Find(now int64) *E {
	m := s.table.memory.Load()
	if m == nil {
		return nil
	}
	for i, tag := range m.tags[s.from : s.from+s.table.ways] {
		if tag == s.tag {
			if e := &m.entries[s.from+uint64(i)]; P(e).Worth(now) > 0 {
				return e
			}
		}
	}
	return nil
}

// Enter returns the entry of the key. If there is none, it makes one, which is zero, in the place of the entry that is
// worth least; or it returns nil if all of them stay.
func (s Set[E, P]) Enter(now int64) *E {
	if e := s.Find(now); e != nil {
		return e
	}
	m := s.table.remember()
	at, least := uint64(0), uint64(Stays)
	for i := s.from; i < s.from+s.table.ways && least > 0; i++ {
		worth := uint64(0)
		if m.tags[i] != 0 {
			worth = P(&m.entries[i]).Worth(now)
		}
		if worth < least {
			at, least = i, worth
		}
	}
	if least == Stays {
		return nil
	}
	m.tags[at] = s.tag
	clear(m.entries[at : at+1])
	return &m.entries[at]
}

// Forget drops the entry of the key, if there is one.
func (s Set[E, P]) Forget() {
	m := s.table.memory.Load()
	if m == nil {
		return
	}
	for i := s.from; i < s.from+s.table.ways; i++ {
		if m.tags[i] == s.tag {
			m.tags[i] = 0
		}
	}
}

// remember returns the memory of the table.
func (t *Sets[E, P]) remember() *memory[E] {
	if m := t.memory.Load(); m != nil {
		return m
	}
	n := (t.mask + 1) * t.ways
	t.memory.CompareAndSwap(nil, &memory[E]{make([]uint32, n), make([]E, n)})
	return t.memory.Load()
}
