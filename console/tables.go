package console

import (
	"maps"
	"slices"
	"time"

	"weir"
)

// A capacityRow is a gate with a limited capacity as the page shows it.
type capacityRow struct {
	GateStatus
	Load string
	Wait weir.Duration
}

func capacityRows(gates []GateStatus) (rows []capacityRow) {
	for _, g := range WithRoutes(gates) {
		if g.Capacity == nil {
			continue
		}
		rows = append(rows, capacityRow{GateStatus: g, Load: percent(g.Capacity.Load),
			Wait: inMillis(g.Capacity.Delay)})
	}
	return rows
}

// A serverRow is a server behind a gate as the page shows it.
type serverRow struct {
	ServerStatus
	Gate string
}

// serverRows are the servers of gates that have several, or one that is not healthy.
func serverRows(gates []GateStatus) (rows []serverRow) {
	for _, g := range gates {
		if len(g.Servers) == 1 && g.Servers[0].Healthy {
			continue
		}
		for _, s := range g.Servers {
			rows = append(rows, serverRow{s, g.Gate})
		}
	}
	return rows
}

// A stampRow is a throttle that asks for stamps as the page shows it.
type stampRow struct {
	ThrottleStatus
	Asked []askedAt // where something is asked
}

// askedAt is the work that a gate asks for. The name is empty if there is only one gate.
type askedAt struct{ Gate, Work string }

// stampRows takes the work from the latest sample if there is one, so that tables and plots agree.
func stampRows(throttles []ThrottleStatus, past []GateHistory) (rows []stampRow) {
	type key struct{ throttle, gate string }
	latest := map[key]Sample{}
	for _, h := range past {
		if len(h.Samples) > 0 {
			latest[key{h.Stamps, h.Gate}] = h.Last()
		}
	}
	for _, t := range throttles {
		if t.Stamp == nil {
			continue
		}
		r := stampRow{ThrottleStatus: t}
		for _, gate := range slices.Sorted(maps.Keys(t.Stamp.Work)) {
			work, takes := t.Stamp.Work[gate], time.Duration(0)
			if s, ok := latest[key{t.Throttle, gate}]; ok {
				work, takes = s.Work, s.Takes
			}
			if work == 0 {
				continue
			}
			at := askedAt{Work: asked(work, takes)}
			if len(t.Stamp.Work) > 1 {
				at.Gate = gate
			}
			r.Asked = append(r.Asked, at)
		}
		rows = append(rows, r)
	}
	return rows
}
