package quota

import (
	"hash/maphash"
	"net/netip"
	"sync"

	"weir/identify"
)

// bringers bounds how many new accounts each source brings, in 512 KiB of memory however many sources there are. A
// source has two slots for what it brings, which it may share with others, and is over its bound when both are used
// up. An entry is the time at which all that was brought is paid off, as with window gcra.
//
// Addresses of IPv6 come by the /48: what such a site brings is bounded too, at sixteen times as much.
type bringers struct {
	seed  maphash.Seed
	mu    sync.Mutex
	table []int64
}

const (
	bringerSlots = 1 << 16
	siteBits     = 48
	siteFactor   = 16
)

// A pool is what a source uses up: by accounts that are new, or by new accounts that the upstream has accepted.
// Accepted ones are bounded too: else one source could fill the table by a page that the upstream gives to everybody.
type pool struct {
	factor int64  // how many times new_accounts it is
	salt   uint64 // spreads the slots
}

var (
	newKeys      = pool{1, 0x9e3779b97f4a7c15}
	acceptedKeys = pool{10, 0xd6e8feb86659fd93}
)

// An origin is where an event comes from, as bringers count it: a bit that is set, 31 bits of the source and 32 of its
// site. 0 is none.
type origin uint64

const counted origin = 1 // the only bit of an origin without a source

func (o origin) source() uint32 { return uint32(o) >> 1 }
func (o origin) site() uint32   { return uint32(o >> 32) }

func (b *bringers) of(rs *rules, from netip.Addr) origin {
	if !from.IsValid() {
		return counted
	}
	network := sourceOf(rs, from)
	o := origin(max(1, uint32(maphash.Comparable(b.seed, network))>>1))<<1 | counted
	if network.Is6() && rs.SourceV6 > siteBits {
		site := identify.Network(network, rs.SourceV4, siteBits).Addr()
		o |= origin(max(1, uint32(maphash.Comparable(b.seed, site)))) << 32
	}
	return o
}

// A bringer is a source, or a site, as it is counted: its slots, and what an account costs.
type bringer struct {
	slots [2]uint64
	cost  int64 // nanoseconds; all together they must not cost more than the period of new_accounts
}

// different returns the slots, which may be one and the same.
func (w *bringer) different() []uint64 {
	if w.slots[0] == w.slots[1] {
		return w.slots[:1]
	}
	return w.slots[:]
}

// who returns the bringers that an origin counts as; n says how many they are.
func (p pool) who(rs *rules, o origin) (who [2]bringer, n int) {
	for i, hash := range [2]uint32{o.source(), o.site()} {
		if hash == 0 {
			continue
		}
		count := p.factor * rs.NewAccounts.Count
		if i == 1 {
			count *= siteFactor
		}
		x := (uint64(hash) + 1) * p.salt
		who[n] = bringer{[2]uint64{x >> 48, x >> 32 % bringerSlots}, max(1, int64(rs.NewAccounts.Per)/count)}
		n++
	}
	return who, n
}

// fits reports whether an origin may bring an account, and charges it with the account if it is to take one. What has
// no source is not bounded.
func (b *bringers) fits(rs *rules, p pool, o origin, now int64, take bool) bool {
	who, n := p.who(rs, o)
	if n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.table == nil {
		b.table = make([]int64, bringerSlots)
	}
	most := int64(rs.NewAccounts.Per)
	for _, w := range who[:n] {
		if min(b.owes(w.slots[0], now, most), b.owes(w.slots[1], now, most))+w.cost > most {
			return false
		}
	}
	for _, w := range who[:n] {
		for _, at := range w.different() {
			if take {
				b.table[at] = now + min(b.owes(at, now, most)+w.cost, most)
			}
		}
	}
	return true
}

// owes is what a slot owes. A clock that was set back adds nothing to it.
func (b *bringers) owes(at uint64, now, most int64) int64 { return min(max(0, b.table[at]-now), most) }

func (b *bringers) give(rs *rules, p pool, o origin) {
	who, n := p.who(rs, o)
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.table == nil {
		return
	}
	for _, w := range who[:n] {
		for _, at := range w.different() {
			b.table[at] -= w.cost
		}
	}
}
