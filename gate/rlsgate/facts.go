package rlsgate

import (
	"cmp"
	"maps"
	"slices"

	"weir/gate"
)

// Facts implements gate.Options.
func (o Options) Facts() gate.Facts {
	f := gate.Facts{Listen: o.Listen, Sockets: cmp.Or(o.Bounds.Connections, gate.UsualSockets)}
	for _, name := range slices.Sorted(maps.Keys(o.Domains)) {
		f.Lists = append(f.Lists, gate.List{Key: "domains." + name + ".throttles", Names: o.Domains[name].Throttles,
			Judges: gate.Connections, Parts: gate.NamedParts()})
	}
	if a := o.Authz; a != nil {
		f.Lists = append(f.Lists, gate.List{Key: "authz.throttles", Names: a.Throttles, Judges: gate.Requests,
			Parts: gate.HTTPParts()})
		f.Clients = gate.Clients{Under: "authz", Proxies: a.TrustedProxies,
			Account: a.Account, Conflict: a.AccountConflict, Throttles: a.Throttles, Asked: true}
	}
	return f
}
