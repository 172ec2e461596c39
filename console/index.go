package console

import (
	_ "embed"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"weir"
	"weir/console/access"
	"weir/internal/plot"
)

//go:embed index.html
var indexHTML string

//go:embed plot.html
var plotHTML string

//go:embed style.css
var styleCSS string

//go:embed live.js
var liveJS []byte

func style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	io.WriteString(w, plot.CSS+styleCSS)
}

//go:embed plot.js
var plotJS []byte

// script serves a script of the pages.
func script(text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Write(text)
	}
}

// overviewPage shows what weir does, at a glance.
func overviewPage() *page {
	return newPage(page{name: "Overview", role: access.View, live: true, plots: true, show: overview}, indexHTML, plotHTML,
		trafficHTML)
}

func overview(v *visit) (any, error) {
	shown := struct {
		Status
		Plots      []gatePlots
		Servers    []serverRow
		Capacities []capacityRow
		Stamps     []stampRow
		Blooms     []bloomRow
		NotReady   string
		Traffic    trafficView
	}{Status: v.status()}
	q := OverviewQuery{Window: v.query.Get("window"), Last: 12}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	o := v.backend.Overview(q)
	shown.Traffic = trafficOf(&o, q.Window == OneHour)
	past := v.backend.History()
	for _, h := range past[:min(len(past), maxPlotted)] {
		shown.Plots = append(shown.Plots, spanOf(false).plotsOf(h))
	}
	shown.Servers = serverRows(shown.Gates)
	shown.Capacities, shown.Stamps = capacityRows(shown.Gates), stampRows(shown.Throttles, past)
	for _, t := range shown.Throttles {
		if t.Bloom != nil {
			shown.Blooms = append(shown.Blooms, rowOf(t))
		}
	}
	if err := v.backend.Ready(); err != nil {
		shown.NotReady = err.Error()
	}
	return shown, nil
}

// A bloomRow is a Bloom limiter as the page shows it: estimates, in as many digits as they are worth.
type bloomRow struct {
	Throttle   string
	Collateral weir.Share
	Attackers  int64
	Drained    weir.Share
	Filled     float64
	Memory     weir.Size
	AmpleBurst int64
}

func rowOf(t ThrottleStatus) bloomRow {
	b := t.Bloom
	share := func(v float64) weir.Share { return weir.Share(math.Round(v*1e4) / 1e4) }
	return bloomRow{
		Throttle: t.Throttle, Collateral: share(b.Collateral), Attackers: b.Attackers, Drained: share(b.Drained),
		Filled: b.Drained, AmpleBurst: b.AmpleBurst,
		Memory: weir.Size(math.Ceil(float64(b.Bytes)/(1<<20))) << 20,
	}
}

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

//go:embed sources.html
var sourcesHTML string

// sourcesPage shows where load comes from, and who is banned.
func sourcesPage() *page {
	return newPage(page{path: "sources", name: "Sources", role: access.View, show: sources}, sourcesHTML)
}

// pageLines is how many lines of a list a page shows.
const pageLines = 100

func sources(v *visit) (any, error) {
	status := v.status()
	shown := struct {
		Blooms []bloomRow
		XDP    []XDPStatus
		Status BanStatus
		Filter string
		BanPage
	}{XDP: status.XDP, Status: status.Bans, Filter: v.query.Get("filter")}
	for _, t := range status.Throttles {
		if t.Bloom != nil {
			shown.Blooms = append(shown.Blooms, rowOf(t))
		}
	}
	var err error
	shown.BanPage, err = v.backend.Bans(BanQuery{Filter: shown.Filter, After: v.query.Get("after"), Limit: pageLines})
	return shown, err
}
