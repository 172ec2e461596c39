package postfixgate

import (
	"cmp"

	"weir/gate"
)

// Facts implements gate.Options.
func (o Options) Facts() gate.Facts {
	return gate.Facts{Listen: o.Listen, Sockets: cmp.Or(o.Bounds.Connections, gate.UsualSockets),
		Lists: []gate.List{
			{Key: "throttles", Names: o.Throttles, Judges: gate.Messages},
			{Key: "per_recipient", Names: o.PerRecipient, Judges: gate.Recipients}}}
}
