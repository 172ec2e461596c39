package httpgate

import (
	"log/slog"
	"net/netip"
	"time"

	"weir/identify"
)

// noteUnlisted warns, once for each address, of what looks like a proxy that trusted_proxies does not name.
func (g *Gate) noteUnlisted(peer netip.Addr, h identify.Fields, now time.Time) {
	p, found := g.unlisted.Note(peer, h, now)
	if found && g.mayLog("an unlisted proxy", now) {
		g.env.Log.LogAttrs(g.Base, slog.LevelWarn, "an address that is not trusted sends a forwarding header again and again: "+
			"if it is a proxy of yours, all of its clients count as one; name it under trusted_proxies",
			slog.Any("address", p.Addr), slog.String("header", p.Header))
	}
}

// UnlistedProxies returns the addresses that are not trusted and send forwarding headers, the busiest first.
func (g *Gate) UnlistedProxies() []identify.UnlistedProxy {
	s := g.Setup.Load()
	return g.unlisted.Found(func(a netip.Addr) bool {
		return s.proxies.Trusts(a) || !a.IsValid() && s.opts.Socket.Trusted
	}, g.env.Clock.Now())
}
