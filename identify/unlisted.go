package identify

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How an unlisted proxy is found.
const (
	maxUnlisted  = 8         // addresses that are watched at a time
	unlistedFrom = 20        // requests with a forwarding header, after which an address is named
	unlistedLife = time.Hour // after which an address that sends none is forgotten
)

// An UnlistedProxy is an address that nobody trusts and that sends a forwarding header again and again. It may be a
// proxy that the operator forgot, all of whose clients count as one. Or a client writes the header itself.
type UnlistedProxy struct {
	Addr   netip.Addr // invalid for a socket of this machine
	Header string     // the header that came last
}

// Unlisted finds unlisted proxies. Of many addresses, it always finds those that send more than one in nine of the
// requests with such a header. The zero value is ready. Goroutines may share it.
type Unlisted struct {
	mu   sync.Mutex
	seen [maxUnlisted]unlisted
}

type unlisted struct {
	UnlistedProxy
	requests int // less those by which others made room; 0: the place is free
	last     time.Time
	told     bool
}

// Note counts a request of an address that is not trusted. It reports whether the address has just been found to be an
// unlisted proxy.
func (u *Unlisted) Note(peer netip.Addr, h Fields, now time.Time) (p UnlistedProxy, found bool) {
	switch {
	case len(h.Values("X-Forwarded-For")) > 0:
		p.Header = "X-Forwarded-For"
	case len(h.Values("Forwarded")) > 0:
		p.Header = "Forwarded"
	case len(h.Values("X-Real-Ip")) > 0:
		p.Header = "X-Real-IP"
	default:
		return p, false
	}
	p.Addr = Plain(peer)
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.place(p.Addr, now)
	if at < 0 {
		return p, false
	}
	s := &u.seen[at]
	s.UnlistedProxy, s.last = p, now
	s.requests++
	found = s.requests >= unlistedFrom && !s.told
	s.told = s.told || found
	return p, found
}

// place returns where an address is counted. If there is no room for it, everybody else loses a request instead.
func (u *Unlisted) place(addr netip.Addr, now time.Time) int {
	free := -1
	for i := range u.seen {
		switch s := &u.seen[i]; {
		case s.requests > 0 && s.Addr == addr:
			return i
		case s.requests == 0 || now.Sub(s.last) >= unlistedLife:
			free = i
		}
	}
	if free >= 0 {
		u.seen[free] = unlisted{}
		return free
	}
	for i := range u.seen {
		u.seen[i].requests--
	}
	return -1
}

// Found returns the unlisted proxies of the last hour that are not trusted meanwhile, the busiest first.
func (u *Unlisted) Found(trusted func(netip.Addr) bool, now time.Time) (all []UnlistedProxy) {
	u.mu.Lock()
	seen := u.seen
	u.mu.Unlock()
	slices.SortStableFunc(seen[:], func(a, b unlisted) int { return cmp.Compare(b.requests, a.requests) })
	for _, s := range seen {
		if s.told && s.requests > 0 && now.Sub(s.last) < unlistedLife && !trusted(s.Addr) {
			all = append(all, s.UnlistedProxy)
		}
	}
	return all
}
