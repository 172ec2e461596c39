package app

import (
	"time"

	"weir"
	"weir/admission"
	"weir/console"
	"weir/gate/httpgate"
	"weir/policy"
)

// capacityLink is what the lanes of a gate are called beside its throttles.
const capacityLink = "capacity"

var _ policy.Lanes = (*admission.Lanes)(nil)

// lanes are those in front of the upstream of one gate.
type lanes struct {
	*admission.Lanes
	link *policy.Link
}

// name is what the lanes are called where the gate is not known.
func (l *lanes) name(gate string) string { return capacityLink + " of " + gate }

// links are what the chain of the gate ends with.
func (l *lanes) links() []*policy.Link {
	if l == nil {
		return nil
	}
	return []*policy.Link{l.link}
}

// prepareLanes keeps the lanes of a gate or a route that stays, with whoever waits in them, or makes them. old are
// those before, or nil.
func (c *change) prepareLanes(o httpgate.Options, of string, old *lanes) (*lanes, error) {
	now := c.app.clock.Now
	if o.Capacity == nil {
		if old != nil {
			c.commit = append(c.commit, func() { old.Retire(now()) })
		}
		return nil, nil
	}
	opts := *o.Capacity
	for _, name := range o.Throttles {
		if t := c.next.throttle(name); t != nil && t.stamps() != nil && t.config.Stamp.Classic {
			opts.Strict, opts.Pool = true, 0 // as the document has it
		}
	}
	if opts.Local == nil {
		opts.Local = new(o.Upstream.Here())
	}
	if old != nil {
		c.commit = append(c.commit, func() {
			if err := old.Configure(opts, now()); err != nil { // the options were checked
				c.app.opts.Log.Error("the capacity stays as it was", "gate", of, "err", err)
			}
		})
		return old, nil
	}
	l, err := admission.New(opts, now())
	if err != nil {
		return nil, err
	}
	c.undo.add(func() { l.Retire(now()) })
	link := c.app.watchedLink(capacityLink, l, policy.Open)
	l.Follow(link.Shadow.Load)
	c.app.pace.Start(l)
	return &lanes{l, link}, nil
}

// view is what the console shows of the lanes.
func (l *lanes) view(now time.Time) *console.Capacity {
	if l == nil {
		return nil
	}
	s := l.Stats(now)
	return &console.Capacity{
		Concurrent: s.Capacity, Here: s.Here, InUse: s.InUse, Load: float64(s.Load),
		Delay:   milliseconds(s.Delay),
		Longest: map[string]float64{"stamped": milliseconds(s.Stamped.Longest), "pool": milliseconds(s.Pool.Longest)},
		Holders: s.Holders,
		Stamped: s.Stamped.Waiting, Pool: s.Pool.Waiting, InLine: s.InLine + s.Called, TurnedAway: s.TurnedAway,
		Shadow: l.link.Shadow.Load(),
		LetIn:  map[string]uint64{"stamped": s.Stamped.LetIn, "pool": s.Pool.LetIn},
		Refused: map[string]uint64{"full": s.Stamped.Full + s.Pool.Full + s.LineFull, "too-many": s.TooMany,
			"expired": s.Stamped.Expired + s.Pool.Expired, "no-show": s.NoShows, "lost": s.Lost},
	}
}

func milliseconds(d weir.Duration) float64 { return float64(d.Std().Microseconds()) / 1000 }

// asProgram is how the general pool would take an event that comes from a program. It takes nothing.
type asProgram struct {
	lanes  *admission.Lanes
	event  *weir.Event
	always bool
}

func (p asProgram) Take() bool {
	return p.lanes.HasRoom(p.event, admission.Taking{Always: p.always}, p.event.Time)
}
