package console

import (
	_ "embed"

	"weir/console/access"
)

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
