package gate

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
)

// A Tally bounds how much is under way at once for all sources together, such as requests. Of the last tenth of the
// bound a source may have as large a share as is free of the bound: with five percent free, five percent of the free
// places. So few sources with much under way leave room for many others, and one alone can use nine tenths. What is
// under way is never cut off.
//
// How much each source has is counted in two tables of a fixed size; where others share both of its counters, it may
// seem to be a little more. The zero value is empty. A Tally is safe for concurrent use and never allocates.
type Tally struct {
	n    atomic.Int64
	have [2][1 << 12]atomic.Int32
}

// A Who stands for a source in a Tally.
type Who uint64

var whoSeed = maphash.MakeSeed() // an attacker must not find out who shares counters

// WhoAt returns the source at an address: an IPv4 address or an IPv6 /64. Clients without an address are one source.
func WhoAt(addr netip.Addr) Who {
	b := sourceOf(addr).As16()
	return Who(maphash.Bytes(whoSeed, b[:]))
}

// WhoIs returns a source by its name, such as an account.
func WhoIs(name string) Who { return Who(maphash.String(whoSeed, name)) }

// Enter counts one more of a source, of which there may be most in all. It reports false, and counts nothing, when that
// is one too many.
func (t *Tally) Enter(who Who, most int) bool {
	free := int64(most) + 1 - t.n.Add(1) // with the one that it would have
	own := t.add(who, 1)
	if free <= 0 || free <= int64(most)/10 && own > max(1, free*free/int64(most)) {
		t.Leave(who)
		return false
	}
	return true
}

// Leave ends what Enter began.
func (t *Tally) Leave(who Who) {
	t.add(who, -1)
	t.n.Add(-1)
}

// Len is how many there are.
func (t *Tally) Len() int { return int(t.n.Load()) }

// add returns how many a source now has.
func (t *Tally) add(who Who, n int32) int64 {
	a, b := &t.have[0][who%(1<<12)], &t.have[1][who>>32%(1<<12)]
	return int64(min(a.Add(n), b.Add(n)))
}
