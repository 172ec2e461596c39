package console

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"weir/console/access"
)

//go:embed throttles.html
var throttlesHTML string

// throttlesPage shows what each throttle does, what it would do, and the limits of single accounts.
func throttlesPage() *page {
	return newPage(page{path: "throttles", name: "Throttles", role: access.View, show: throttles}, throttlesHTML,
		emergencyHTML)
}

// A throttleRow is a throttle on the page. Figures are of the last hour.
type throttleRow struct {
	Name, Kind     string
	Unit           string // of what it counts
	Shadow         bool
	Admitted, Held string
	Would, Of      string
	Names          []string // who would have been held back most
}

// namesShown is how many names a row has room for.
const namesShown = 5

func throttles(v *visit) (any, error) {
	shown := struct {
		Rows   []throttleRow
		Quotas []string // throttles whose limits can be set for single accounts
		Filter string
		LimitPage
	}{Filter: v.query.Get("filter")}
	for _, t := range v.backend.Throttles() {
		if t.Kind == "quota" && t.Table != nil {
			shown.Quotas = append(shown.Quotas, t.Link.Name)
		}
	}
	for _, t := range v.backend.Overview(OverviewQuery{Window: OneHour, Top: namesShown, Last: 1}).Throttles {
		would, of := t.Hour.WouldRefuse()
		e := t.Hour.Events
		row := throttleRow{Name: t.Name, Kind: t.Kind, Unit: t.Unit, Shadow: t.Shadow, Admitted: whole(e[Admitted]),
			Held: whole(e[Delayed] + e[Challenged] + e[Refused]), Would: whole(would), Of: whole(of)}
		for _, h := range t.Would {
			row.Names = append(row.Names, h.Name)
		}
		shown.Rows = append(shown.Rows, row)
	}
	if len(shown.Quotas) == 0 {
		return shown, nil
	}
	in := LimitQuery{Filter: shown.Filter, Limit: pageLines}
	if skip := v.query.Get("skip"); skip != "" {
		n, err := strconv.Atoi(skip)
		if err != nil || n < 0 {
			return nil, Invalid("skip: how many to leave out, from 0 on")
		}
		in.Skip = n
	}
	var err error
	shown.LimitPage, err = v.backend.Limits(in)
	return shown, err
}

// whole writes a count.
func whole(n float64) string { return fmt.Sprintf("%.0f", n) }

// countOf writes a count with what it is of, which is given for many: one of them is an event, not an events.
func countOf(n, of string) string {
	if n == "1" {
		of = strings.TrimSuffix(of, "s")
	}
	return n + " " + of
}
