package console

import (
	_ "embed"
	"io"
	"math"
	"net/http"

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
