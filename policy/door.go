package policy

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"weir"
)

// KindConnection is the kind of an event that a door judges.
const KindConnection = "connection"

// A Door judges connections before anything is read from them. Those that come from trusted proxies are not counted:
// everybody behind the proxy would share one limit. It is safe for concurrent use; nil lets everybody in.
type Door struct {
	chain  *Chain
	trusts func(netip.Addr) bool
	visits sync.Pool // of *visit, so that judging allocates nothing
}

// A visit is one connection at the door.
type visit struct {
	event weir.Event
	pass  Pass
}

// NewDoor returns a door with a chain of throttles. trusts, which may be nil, says who is a trusted proxy.
func NewDoor(c *Chain, trusts func(netip.Addr) bool) *Door {
	d := &Door{chain: c, trusts: trusts}
	d.visits.New = func() any { return new(visit) }
	return d
}

// Admit reports whether a connection from source may come in. Nobody waits or pays at a door: such verdicts turn a
// connection away, as nothing can be said to a client before it has said something.
func (d *Door) Admit(source netip.Addr, now time.Time) bool {
	if d == nil {
		return true
	}
	if e := d.chain.gate; e != nil {
		e.Connections.Add(1)
	}
	if len(d.chain.links) == 0 || d.trusts != nil && d.trusts(source) {
		return true
	}
	v := d.visits.Get().(*visit)
	defer d.visits.Put(v)
	v.event = weir.Event{Time: now, Source: source, Kind: KindConnection}
	d.chain.Judge(context.Background(), &v.event, &v.pass)
	in := v.pass.Answer.Verdict == weir.Admit
	v.pass.Settle(weir.Outcome{Time: now, Done: in})
	if e := d.chain.gate; e != nil && !in {
		e.TurnedAway.Add(1)
	}
	return in
}
