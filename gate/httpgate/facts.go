package httpgate

import (
	"cmp"
	"fmt"

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
	facts := gate.Facts{Listen: o.Listen,
		Sockets: 2 * cmp.Or(o.Bounds.Connections, gate.UsualSockets), // each may have one to the upstream
		Lists: []gate.List{
			{Key: "accept", Names: o.Accept, Judges: gate.Arrivals},
			{Key: "throttles", Names: o.Throttles, Judges: gate.Requests, Parts: parts, Answers: true}},
		Clients: gate.Clients{Proxies: o.TrustedProxies, Account: o.Account,
			Conflict: o.AccountConflict, Throttles: o.Throttles}}
	for i, r := range o.Routes {
		under := fmt.Sprintf("routes[%d]", i)
		if r.Throttles != nil {
			facts.Lists = append(facts.Lists,
				gate.List{Key: under + ".throttles", Names: r.Throttles, Judges: gate.Requests, Apart: true,
					Parts: parts, Answers: true})
		}
		if r.Throttles != nil || r.Account != nil {
			facts.Routes = append(facts.Routes, gate.Clients{Under: under, Proxies: o.TrustedProxies,
				Account: r.Account, Conflict: o.Of(r).AccountConflict, Throttles: r.Throttles})
		}
	}
	return facts
}
