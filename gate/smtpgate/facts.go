package smtpgate

import (
	"cmp"

	"weir/gate"
)

// Facts implements gate.Options.
func (o Options) Facts() gate.Facts {
	return gate.Facts{Listen: o.Listen, Sockets: cmp.Or(o.Bounds.Sessions, gate.UsualSockets),
		Lists: []gate.List{
			{Key: "accept", Names: o.Accept, Judges: gate.Arrivals},
			{Key: "throttles", Names: o.Throttles, Judges: gate.Messages},
			{Key: "per_recipient", Names: o.PerRecipient, Judges: gate.Recipients}}}
}
