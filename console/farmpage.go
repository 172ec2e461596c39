package console

import (
	_ "embed"

	"weir/console/access"
)

//go:embed farmpage.html
var farmHTML string

// farmPage shows the nodes of a farm.
func farmPage() *page {
	return newPage(page{path: "farm", name: "Farm", role: access.View, show: showFarm,
		there: func(b Backend) bool { return b.Farm() != nil }}, farmHTML)
}

// A farmShown is the farm as the page shows it.
type farmShown struct {
	FarmStatus
	Up, Lost int
	Shadow   bool // all throttles of this node are in shadow
}

func showFarm(v *visit) (any, error) {
	f := v.backend.Farm()
	if f == nil {
		return nil, alone()
	}
	s := farmShown{FarmStatus: f.Status(), Shadow: len(v.backend.Throttles()) > 0}
	for _, n := range s.Nodes {
		switch n.State {
		case "here", "up":
			s.Up++
		case "lost":
			s.Lost++
		}
	}
	for _, t := range v.backend.Throttles() {
		s.Shadow = s.Shadow && t.Link.Shadow.Load()
	}
	return s, nil
}
