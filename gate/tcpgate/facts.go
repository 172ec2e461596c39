package tcpgate

import (
	"cmp"

	"weir/gate"
)

// Facts implements gate.Options.
func (o Options) Facts() gate.Facts {
	return gate.Facts{Listen: o.Listen, UDP: o.Protocol == UDP,
		Sockets: 2*cmp.Or(o.Bounds.Connections, gate.UsualSockets) + o.Bounds.Clients,
		Lists: []gate.List{
			{Key: "accept", Names: o.Accept, Judges: gate.Arrivals},
			{Key: "throttles", Names: o.Throttles, Judges: gate.Connections}},
		Clients: gate.Clients{Proxies: o.TrustedProxies, Throttles: o.Throttles}}
}
