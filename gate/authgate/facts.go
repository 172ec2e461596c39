package authgate

import (
	"cmp"

	"weir/gate"
)

// Facts implements gate.Options.
func (o Options) Facts() gate.Facts {
	sockets := cmp.Or(o.Bounds.Connections, gate.UsualSockets)
	o = o.WithDefaults()
	return gate.Facts{Listen: o.Listen, Sockets: sockets,
		Lists: []gate.List{{Key: "throttles", Names: o.Throttles, Judges: gate.Requests,
			Parts: gate.HTTPParts()}},
		Clients: gate.Clients{Proxies: o.TrustedProxies, Account: o.Account, Conflict: o.AccountConflict,
			Throttles: o.Throttles, Asked: true}}
}
