package httpgate

import (
	"cmp"

	"weir/gate"
)

// Facts implements gate.Options.
func (o Options) Facts() gate.Facts {
	parts := gate.HTTPParts()
	if o.JWT != nil {
		parts = append(parts, "jwt")
	}
	if o.TLS != nil && o.TLS.ClientCA != "" {
		parts = append(parts, "cert")
	}
	return gate.Facts{Listen: o.Listen,
		Sockets: 2 * cmp.Or(o.Bounds.Connections, gate.UsualSockets), // each may have one to the upstream
		Lists: []gate.List{
			{Key: "accept", Names: o.Accept, Judges: gate.Arrivals},
			{Key: "throttles", Names: o.Throttles, Judges: gate.Requests, Parts: parts, Answers: true}},
		Clients: gate.Clients{Proxies: o.TrustedProxies, Header: o.ForwardedHeader, Account: o.Account,
			Conflict: o.AccountConflict, Throttles: o.Throttles}}
}
