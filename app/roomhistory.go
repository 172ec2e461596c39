package app

import (
	"time"

	"weir"
	"weir/admission"
	"weir/console"
	"weir/gate/httpgate"
)

// roomColumns are those of a route with a capacity of its own. What else there is to know of a route is counted by the
// gate.
var roomColumns = columns{
	counted: []console.Measure{console.Stamped, console.Pooled, console.Crowded},
	levels:  []console.Measure{console.Waiting, console.Load, console.Work, console.WorkSeconds, console.InLine},
}

// readRoom reads the counters of a route with a capacity of its own.
func readRoom(g *generation, at bottleneck, now time.Time) reading {
	s, work, takes := readLanes(g, at, now)
	return reading{counts: []uint64{s.Stamped.LetIn, s.Pool.LetIn, s.TurnedAway},
		levels: []float64{float64(s.Stamped.Waiting + s.Pool.Waiting), float64(s.Load), work, takes,
			float64(s.InLine + s.Called)}}
}

// readLanes reads the counters of lanes, what a stamp costs there now, in operations, and how many seconds a phone
// works on that.
func readLanes(g *generation, at bottleneck, now time.Time) (s admission.Stats, work, takes float64) {
	s = at.Stats(now)
	if taker := g.stamps(at.chain); taker != nil {
		share, delay := at.Load(now)
		w := taker.stamps().Observe(weir.Load{Of: at.of, Share: share, Delay: delay}, now)
		work, takes = float64(w), w.Time(taker.config.Stamp.Algorithm).Seconds()
	}
	return s, work, takes
}

// rooms are the routes of a gate with a capacity of their own, over time. The lock is held.
func (h *history) roomsOf(g *generation, gt *gate, q console.OverviewQuery, now time.Time) (all []console.RouteWatch) {
	for _, at := range gt.ownRooms() {
		w := console.RouteWatch{Address: httpgate.RouteLoad(gt.address(), at.route),
			Series: console.Series{Name: at.of, Kind: gt.kind, Unit: "requests"}}
		if t := g.stamps(at.chain); t != nil {
			w.Stamps = t.name
		}
		r := h.recordOf(at.lanes, &roomColumns, readRoom(g, at, now), now)
		r.series(&w.Series, q.Window == console.OneHour, q.Since, true)
		all = append(all, w)
	}
	return all
}
