package console

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"math"
	"net/http"
	"weir/internal/plot"

	"weir"
)

//go:embed index.html
var indexHTML string

//go:embed plot.html
var plotHTML string

//go:embed style.css
var styleCSS string

//go:embed live.js
var liveJS []byte

var indexPage = template.Must(template.Must(template.New("index").Parse(indexHTML)).Parse(plotHTML))

func style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	io.WriteString(w, plot.CSS+styleCSS)
}

func live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	w.Write(liveJS)
}

// index is the page for people.
func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	page := struct {
		Status
		Plots      []gatePlots
		Capacities []capacityRow
		Stamps     []stampRow
		Blooms     []bloomRow
		NotReady   string
	}{Status: s.backend.Status()}
	past := s.backend.History()
	for _, h := range past {
		page.Plots = append(page.Plots, plotsOf(h))
	}
	page.Capacities, page.Stamps = capacityRows(page.Gates), stampRows(page.Throttles, past)
	for _, t := range page.Throttles {
		if t.Bloom != nil {
			page.Blooms = append(page.Blooms, rowOf(t))
		}
	}
	if err := s.backend.Ready(); err != nil {
		page.NotReady = err.Error()
	}
	var b bytes.Buffer
	if err := indexPage.Execute(&b, page); err != nil {
		writeJSON(w, http.StatusInternalServerError, &Error{Msg: err.Error()})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(b.Bytes())
}

// A bloomRow is a Bloom limiter as the page shows it: estimates, in as many digits as they are worth.
type bloomRow struct {
	Throttle   string
	Collateral weir.Share
	Attackers  int64
	Drained    weir.Share
	Filled     float64
	Memory     weir.Size
}

func rowOf(t ThrottleStatus) bloomRow {
	b := t.Bloom
	share := func(v float64) weir.Share { return weir.Share(math.Round(v*1e4) / 1e4) }
	return bloomRow{
		Throttle: t.Throttle, Collateral: share(b.Collateral), Attackers: b.Attackers, Drained: share(b.Drained),
		Filled: b.Drained,
		Memory: weir.Size(math.Ceil(float64(b.Bytes)/(1<<20))) << 20,
	}
}
