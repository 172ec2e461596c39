package quota

import (
	"hash/maphash"
	"net/netip"

	"weir/identify"
	"weir/internal/tables"
)

// The table of sources that bring accounts: 65,536 of them, 768 KiB.
const (
	sourceSets = 1 << 13
	sourceWays = 8
)

// sources bounds how many new accounts each source brings. Addresses of IPv6 come by the /48, too: what such a site
// brings is bounded at sixteen times as much. Goroutines may share it.
type sources struct {
	seed  maphash.Seed
	table *tables.Sets[debt, *debt]
}

const (
	siteBits   = 48
	siteFactor = 16
)

// A debt is the time at which all that a source has brought is paid off, as with window gcra.
type debt struct{ until int64 }

// Worth makes the source go first that owes least. A source that owes nothing is as good as a new one.
func (d *debt) Worth(now int64) uint64 { return uint64(max(0, d.until-now)) }

// An allowance is what a source uses up: by accounts that are new, or by new accounts that the upstream has accepted.
// Accepted ones are bounded too: else one source could fill the table by a page that the upstream gives to everybody.
type allowance struct {
	factor int64  // how many times new_accounts it is
	salt   uint64 // spreads the sources over the table
}

var (
	newKeys      = allowance{1, 0x9e3779b97f4a7c15}
	acceptedKeys = allowance{10, 0xd6e8feb86659fd93}
)

// An origin is where an event comes from, as sources are counted: a bit that is set, 31 bits of the source and 32 of
// its site. 0 is none.
type origin uint64

const counted origin = 1 // the only bit of an origin without a source

func (o origin) source() uint32 { return uint32(o) >> 1 }
func (o origin) site() uint32   { return uint32(o >> 32) }

func newSources() sources {
	return sources{maphash.MakeSeed(), tables.NewSets[debt](sourceSets, sourceWays)}
}

func (s *sources) of(rs *rules, from netip.Addr) origin {
	if !from.IsValid() {
		return counted
	}
	network := sourceOf(rs, from)
	o := origin(max(1, uint32(maphash.Comparable(s.seed, network))>>1))<<1 | counted
	if network.Is6() && rs.SourceV6 > siteBits {
		site := identify.Network(network, rs.SourceV4, siteBits).Addr()
		o |= origin(max(1, uint32(maphash.Comparable(s.seed, site)))) << 32
	}
	return o
}

// fits reports whether an origin may bring an account, and charges it with the account if it is to take one. What has
// no source is not bounded.
func (s *sources) fits(rs *rules, a allowance, o origin, now int64, take bool) bool {
	if !s.charge(rs, a, o.source(), 1, now, take) {
		return false
	}
	if s.charge(rs, a, o.site(), siteFactor, now, take) {
		return true
	}
	if take {
		s.forgive(rs, a, o.source(), 1, now)
	}
	return false
}

// give takes an account back that fits has charged an origin with.
func (s *sources) give(rs *rules, a allowance, o origin, now int64) {
	s.forgive(rs, a, o.source(), 1, now)
	s.forgive(rs, a, o.site(), siteFactor, now)
}

func (a allowance) hash(of uint32) uint64 { return (uint64(of) + 1) * a.salt }

// cost is for how long an account is owed. All together must not owe more than the period of new_accounts.
func (a allowance) cost(rs *rules, times int64) int64 {
	return max(1, int64(rs.NewAccounts.Per)/(times*a.factor*rs.NewAccounts.Count))
}

// charge is fits for a source or a site; 0 is none.
func (s *sources) charge(rs *rules, a allowance, of uint32, times, now int64, take bool) bool {
	if of == 0 {
		return true
	}
	most, cost := int64(rs.NewAccounts.Per), a.cost(rs, times)
	set := s.table.Lock(a.hash(of))
	defer set.Unlock()
	owes := int64(0)
	if d := set.Find(now); d != nil {
		owes = min(d.until-now, most) // a clock that was set back adds nothing to it
	}
	if owes+cost > most {
		return false
	}
	if take {
		set.Enter(now).until = now + owes + cost
	}
	return true
}

func (s *sources) forgive(rs *rules, a allowance, of uint32, times, now int64) {
	if of == 0 {
		return
	}
	set := s.table.Lock(a.hash(of))
	defer set.Unlock()
	if d := set.Find(now); d != nil {
		d.until -= a.cost(rs, times)
	}
}
