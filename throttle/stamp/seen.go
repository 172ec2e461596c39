package stamp

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// patienceWindow is how long an unpaid challenge is held against a client.
const patienceWindow = time.Minute

// The table of clients that were asked: sets of four entries each, 2 MiB in all.
const (
	seenSets = 1 << 16
	seenWays = 4
)

// seen counts the challenges that clients have recently left unpaid. Its memory is fixed: when too many clients fall
// into one set, the one with the fewest is forgotten. The zero value is ready to use.
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

func count(entry, minute uint64) uint64 {
	if entry>>16&0xffff != minute {
		return 0
	}
	return entry & 0xffff
}

// note counts a challenge and returns how many the client has left unpaid in this minute.
func (s *seen) note(client string, now time.Time) int {
	set, tag := s.load().set(client)
	at := minute(now)
	for {
		// The entry of this client, or else the one that counts least: it may be empty, or of another minute.
		slot, old, before, least := 0, uint64(0), uint64(0), uint64(1<<16)
		for i := range set {
			e := set[i].Load()
			n := count(e, at)
			if n > 0 && e>>32 == tag {
				slot, old, before = i, e, n
				break
			}
			if n < least {
				slot, old, least = i, e, n
			}
		}
		n := min(before+1, 0xffff)
		if set[slot].CompareAndSwap(old, tag<<32|at<<16|n) {
			return int(n)
		}
	}
}

// left is how many challenges a client has left unpaid in this minute.
func (s *seen) left(client string, now time.Time) int {
	if t := s.table.Load(); t != nil {
		set, tag := t.set(client)
		for i := range set {
			if e := set[i].Load(); e>>32 == tag {
				return int(count(e, minute(now)))
			}
		}
	}
	return 0
}

// forget drops the count of a client that paid.
func (s *seen) forget(client string) {
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
