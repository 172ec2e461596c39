package gate

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"

	"weir/internal/tables"
)

// A Tally bounds how much is under way at once for all sources together, such as requests. The rule is that of
// tables.MayTake: a source gets few of the last tenth, so that there is room for others. What is under way is never cut
// off.
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
	used := t.n.Add(1) - 1
	if own := t.add(who, 1) - 1; !tables.MayTake(int(own), int(used), most) {
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
func (t *Tally) add(who Who, n int32) int32 {
	a, b := &t.have[0][who%(1<<12)], &t.have[1][who>>32%(1<<12)]
	return min(a.Add(n), b.Add(n))
}
