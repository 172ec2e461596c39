package apigate

import (
	"cmp"
	"maps"
	"slices"

	"weir/gate"
)

// Facts implements gate.Options.
func (o Options) Facts() gate.Facts {
	f := gate.Facts{Listen: o.Listen, Sockets: cmp.Or(o.Bounds.Connections, gate.UsualSockets)}
	for _, name := range slices.Sorted(maps.Keys(o.Policies)) {
		f.Lists = append(f.Lists, gate.List{Key: "policies." + name, Names: o.Policies[name], Judges: gate.Questions,
			Parts: gate.NamedParts(), Answers: true})
	}
	return f
}
