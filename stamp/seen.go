package stamp

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// patienceWindow is how long an unpaid challenge is held against a client.
const patienceWindow = time.Minute

// The table of clients that were asked: sets of four entries each, 2 MiB in all, whatever comes.
const (
	seenSets = 1 << 16
	seenWays = 4
)

// seen counts the challenges that clients have left unpaid of late. Its memory is fixed: when too many clients meet in one place, the
// one with the fewest is forgotten, and so forgiven. The zero value is ready to use.
//
// An entry is 32 bits of the client's hash, 16 of the minute and 16 of the count.
type seen struct {
	table atomic.Pointer[seenTable]
}

type seenTable struct {
	seed maphash.Seed
	sets [seenSets][seenWays]atomic.Uint64
}

func (s *seen) load() *seenTable {
	if t := s.table.Load(); t != nil {
		return t
	}
	s.table.CompareAndSwap(nil, &seenTable{seed: maphash.MakeSeed()})
	return s.table.Load()
}

func minute(now time.Time) uint64 {
	return uint64(now.Unix()/int64(patienceWindow/time.Second)) & 0xffff
}

func (t *seenTable) set(client string) (*[seenWays]atomic.Uint64, uint64) {
	h := maphash.String(t.seed, client)
	return &t.sets[h%seenSets], h >> 32
}

// note counts a challenge and returns how many the client has left unpaid in this minute.
func (s *seen) note(client string, now time.Time) int {
	t := s.load()
	set, tag := t.set(client)
	for {
		// The entry of this client; else one that is empty or of another minute; else the smallest.
		at, least, old := -1, uint64(1<<16), uint64(0)
		for i := range set {
			e := set[i].Load()
			if e>>32 == tag && e>>16&0xffff == minute(now) && e != 0 {
				at, old = i, e
				break
			}
			n := e & 0xffff
			if e>>16&0xffff != minute(now) {
				n = 0
			}
			if n < least {
				at, least, old = i, n, e
			}
		}
		next := tag<<32 | minute(now)<<16 | 1
		if old>>32 == tag && old>>16&0xffff == minute(now) && old != 0 {
			next = old
			if old&0xffff < 0xffff {
				next++
			}
		}
		if set[at].CompareAndSwap(old, next) {
			return int(next & 0xffff)
		}
	}
}

// forget forgives a client that paid.
func (s *seen) forget(client string, now time.Time) {
	t := s.table.Load()
	if t == nil {
		return
	}
	set, tag := t.set(client)
	for i := range set {
		if e := set[i].Load(); e != 0 && e>>32 == tag {
			set[i].CompareAndSwap(e, 0)
		}
	}
}
