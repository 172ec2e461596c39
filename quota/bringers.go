package quota

import (
	"hash/maphash"
	"net/netip"
	"sync"

	"weir/identify"
)

// bringers bounds how many new accounts each source brings, in 512 KiB of memory however many sources there are. Each source has two
// places, which it may share with others, and is over its bound when both are used up. An entry is the time at which all that the source
// brought is paid off, as with window gcra.
//
// Addresses of IPv6 come by the /48: what one of those brings is bounded too, at sixteen times as much.
type bringers struct {
	seed  maphash.Seed
	mu    sync.Mutex
	table []int64
}

const (
	bringerPlaces = 1 << 16
	whole         = 10 // what a new account costs
	tenth         = 1  // what of it is not given back when the upstream accepts the account: where it accepts all, one source must not fill the table
	siteBits      = 48
	siteFactor    = 16
)

// A bringer is a source as it is counted: its two places, and what it may owe.
type bringer struct {
	at          [2]uint64
	cost, burst int64 // nanoseconds; the cost is that of a whole
}

// of returns how a source is counted, and how its site is; n says how many of the two there are.
func (b *bringers) of(rs *rules, from netip.Addr) (who [2]bringer, n int) {
	per, count := int64(rs.NewAccounts.Per), rs.NewAccounts.Count
	network := sourceOf(rs, from)
	who[0] = b.bringer(network, per, count)
	if network.Is4() || rs.SourceV6 <= siteBits {
		return who, 1
	}
	who[1] = b.bringer(identify.Network(network, rs.SourceV4, siteBits).Addr(), per, siteFactor*count)
	return who, 2
}

func (b *bringers) bringer(network netip.Addr, per, count int64) bringer {
	hash := maphash.Comparable(b.seed, network)
	if count == 0 {
		count = 1
	}
	return bringer{[2]uint64{hash % bringerPlaces, hash >> 32 % bringerPlaces}, max(per/count, whole), per}
}

// take charges a source with parts of a new account, and reports whether it may bring it.
func (b *bringers) take(rs *rules, from netip.Addr, now, parts int64) bool {
	who, n := b.of(rs, from)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.table == nil {
		b.table = make([]int64, bringerPlaces)
	}
	for i := range n {
		if !b.fits(&who[i], now, parts) {
			return false
		}
	}
	for i := range n {
		b.move(&who[i], now, parts)
	}
	return true
}

// room reports whether take would take a whole.
func (b *bringers) room(rs *rules, from netip.Addr, now int64) bool {
	who, n := b.of(rs, from)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range n {
		if b.table != nil && !b.fits(&who[i], now, whole) {
			return false
		}
	}
	return true
}

// give gives parts back.
func (b *bringers) give(rs *rules, from netip.Addr, parts int64) {
	who, n := b.of(rs, from)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.table == nil {
		return
	}
	for i := range n {
		for _, at := range who[i].places() {
			b.table[at] -= who[i].cost / whole * parts
		}
	}
}

// places returns the places of a source, each once.
func (w *bringer) places() []uint64 {
	if w.at[0] == w.at[1] {
		return w.at[:1]
	}
	return w.at[:]
}

// owes is what stands at a place at now. A clock that was set back counts no more than a whole burst.
func (b *bringers) owes(at uint64, w *bringer, now int64) int64 {
	return min(max(0, b.table[at]-now), w.burst)
}

func (b *bringers) fits(w *bringer, now, parts int64) bool {
	for _, at := range w.places() {
		if b.owes(at, w, now)+w.cost/whole*parts <= w.burst {
			return true
		}
	}
	return false
}

func (b *bringers) move(w *bringer, now, parts int64) {
	for _, at := range w.places() {
		b.table[at] = now + min(b.owes(at, w, now)+w.cost/whole*parts, w.burst)
	}
}
