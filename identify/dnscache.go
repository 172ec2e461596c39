package identify

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What is remembered of DNS, and for how long.
const (
	MaxAnswers = 65_536 // addresses, half of them confirmed and half not
	MaxUnsure  = 1024   // addresses of which DNS has been asked and has not answered

	confirmedFor   = 24 * time.Hour
	unconfirmedFor = 10 * time.Minute
	askAgain       = time.Minute // when no answer came; also how long one may be waited for
	maxNames       = 64          // of one address
	samples        = 8           // how many answers are looked at to forget one
)

// ExemptStats counts lookups and answers of DNS.
type ExemptStats struct {
	Asked       uint64 // how often DNS was asked
	Crowded     uint64 // how often it was not, because MaxUnsure answers were awaited
	Pending     int    // answers awaited
	Confirmed   int    // addresses of bots
	Unconfirmed int    // addresses of pretenders
}

// A botSet is a set of bots, by their position in the options.
type botSet [(MaxBots + 63) / 64]uint64

func (s *botSet) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s *botSet) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }

func (s *botSet) meets(t botSet) bool {
	for i := range s {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

// An answer says which bots an address belongs to.
type answer struct {
	bots  botSet
	until int64 // in nanoseconds since the epoch
}

// A dnsCache holds answers of DNS. Answers that confirm a bot are kept apart from those that do not, so that any number
// of pretenders cannot push out real bots. When one half is full, the answer that ends soonest of a few random ones is
// dropped: no client can aim at a certain one, and no order has to be kept.
type dnsCache struct {
	mu      sync.RWMutex
	yes, no map[netip.Addr]answer
	// networks asked about, and when; of IPv6 one address of a /64 at a time, since a pretender has all of them
	pending map[netip.Addr]int64
	swept   int64 // when pending was last swept

	asked, crowded atomic.Uint64
}

func newDNSCache() *dnsCache {
	return &dnsCache{yes: map[netip.Addr]answer{}, no: map[netip.Addr]answer{},
		pending: make(map[netip.Addr]int64, 2*MaxUnsure)}
}

// Unsure registers the function that looks up an address. It is called once for an address until there is an answer,
// while a request waits, and must not block. It asks DNS for the names of the address and for the addresses of these
// names, and then calls Confirm with the names that lead back. If DNS fails, Confirm is not called: earlier answers
// hold until they expire, and after a minute the address may be asked about again.
func (g *Exempt) Unsure(tell func(addr netip.Addr)) { g.unsure.Store(&tell) }

// Unanswered reports that an address could not be looked up. Its next request may ask again.
func (g *Exempt) Unanswered(addr netip.Addr) {
	if g == nil || g.dns == nil {
		return
	}
	g.dns.mu.Lock()
	defer g.dns.mu.Unlock()
	delete(g.dns.pending, asked(addr))
}

// Inherit takes over the function of Unsure from before a reload and, if the bots have the same domains, the answers of
// DNS. It must be called before anything else.
func (g *Exempt) Inherit(old *Exempt) {
	if old == nil {
		return
	}
	g.unsure.Store(old.unsure.Load())
	same := func(a, b bot) bool { return slices.Equal(a.domains, b.domains) }
	if slices.EqualFunc(g.bots, old.bots, same) {
		g.dns = old.dns
	}
}

// Confirm gives the names of an address that lead back to it, or nil. A bot is known for a day. DNS is not asked about
// any other address for ten minutes.
func (g *Exempt) Confirm(addr netip.Addr, names []string, now time.Time) {
	if g == nil || g.dns == nil {
		return
	}
	var a answer
	for _, name := range names[:min(len(names), maxNames)] {
		for i := range g.bots {
			if g.bots[i].has(name) {
				a.bots.add(i)
			}
		}
	}
	addr = Plain(addr)
	if public(addr) {
		g.dns.put(addr, a, now)
	}
}

// Stats returns the counts so far.
func (g *Exempt) Stats() ExemptStats {
	if g == nil || g.dns == nil {
		return ExemptStats{}
	}
	a := g.dns
	a.mu.RLock()
	defer a.mu.RUnlock()
	return ExemptStats{a.asked.Load(), a.crowded.Load(), len(a.pending), len(a.yes), len(a.no)}
}

// confirmed reports whether DNS has confirmed that an address belongs to a bot that it claims to be. It starts a lookup
// if that is unknown, and again after half of the answer's time, so that a bot that comes every day stays known.
func (g *Exempt) confirmed(addr netip.Addr, claims botSet, now time.Time) bool {
	if !public(addr) {
		return false
	}
	t := now.UnixNano()
	g.dns.mu.RLock()
	known, ask := g.dns.look(addr, claims, t)
	g.dns.mu.RUnlock()
	if tell := g.unsure.Load(); ask && tell != nil && g.dns.ask(addr, t) {
		(*tell)(addr)
	}
	return known
}

// look reports whether an address is confirmed, and whether it should be asked about.
func (a *dnsCache) look(addr netip.Addr, claims botSet, t int64) (known, ask bool) {
	if yes, found := a.yes[addr]; found && t < yes.until {
		known = yes.bots.meets(claims)
		if yes.until-t > int64(confirmedFor/2) {
			return known, false
		}
	} else if no, found := a.no[addr]; found && t < no.until {
		return false, false
	}
	when, pending := a.pending[asked(addr)]
	switch {
	case pending:
		return known, overdue(when, t)
	case len(a.pending) >= MaxUnsure && !overdue(a.swept, t):
		a.crowded.Add(1)
		return known, false
	}
	return known, true
}

// ask notes that an address is asked about, if MaxUnsure allows and nobody was quicker.
func (a *dnsCache) ask(addr netip.Addr, t int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) >= MaxUnsure && overdue(a.swept, t) {
		a.sweep(t)
	}
	if _, still := a.look(addr, botSet{}, t); !still {
		return false
	}
	a.pending[asked(addr)] = t
	a.asked.Add(1)
	return true
}

// sweep forgets lookups that were never answered. It runs once a minute at most.
func (a *dnsCache) sweep(t int64) {
	a.swept = t
	maps.DeleteFunc(a.pending, func(_ netip.Addr, when int64) bool { return overdue(when, t) })
}

// overdue reports whether an answer should have come, also if the clock was set back.
func overdue(when, t int64) bool { return t-when >= int64(askAgain) || when-t >= int64(askAgain) }

// asked is what an address counts as while it is asked about.
func asked(addr netip.Addr) netip.Addr { return Network(addr, 32, 64).Addr() }

func (a *dnsCache) put(addr netip.Addr, said answer, now time.Time) {
	into, other, lasts := a.yes, a.no, confirmedFor
	if said.bots == (botSet{}) {
		into, other, lasts = a.no, a.yes, unconfirmedFor
	}
	said.until = now.Add(lasts).UnixNano()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pending, asked(addr))
	delete(other, addr)
	if _, known := into[addr]; !known && len(into) >= MaxAnswers/2 {
		forgetOne(into)
	}
	into[addr] = said
}

// forgetOne forgets the answer that ends soonest of a few, which the map picks at random.
func forgetOne(all map[netip.Addr]answer) {
	var soonest netip.Addr
	var until int64
	n := 0
	for addr, a := range all {
		if n == 0 || a.until < until {
			soonest, until = addr, a.until
		}
		if n++; n == samples {
			break
		}
	}
	delete(all, soonest)
}

// public reports whether DNS can know an address. Names of private addresses are chosen by the operator of the network,
// and a lookup would tell strangers about it. 100.64.0.0/10 is for customers of providers (RFC 6598).
func public(addr netip.Addr) bool {
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !shared.Contains(addr)
}

var shared = netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)

func (b *bot) has(name string) bool {
	return slices.ContainsFunc(b.domains, func(domain string) bool { return within(name, domain) })
}

// within reports whether a name is a domain or below it. The domain is in lower case and has no dot at the end.
func within(name, domain string) bool {
	name = strings.TrimSuffix(name, ".")
	n := len(name) - len(domain)
	if n < 0 || n > 0 && name[n-1] != '.' || !isDomain(name) {
		return false
	}
	return hasStart(name[n:], domain)
}

// isDomain reports whether s is a name in DNS (RFC 1035, 2.3.4), as hosts and crawlers have them.
func isDomain(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			if c := lower(label[i]); !isAlnum(c) && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}
