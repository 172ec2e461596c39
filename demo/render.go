package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/internal/tabular"
)

// How many seconds the curve in the live table shows.
const (
	sparkMost  = 30
	sparkLeast = 8
)

// render draws the live table. It is a function of what it is given, and no line is wider than width.
func render(v view, width int, colour bool) []string {
	ink := tabular.Ink(colour)
	lines := []string{phaseLine(v, width, ink), ""}
	t := liveTable(v, sparkMost)
	for n := sparkMost - 1; n >= sparkLeast && t.Width() > width; n-- {
		t = liveTable(v, n)
	}
	lines = append(lines, t.Lines(width, ink)...)
	lines = append(lines, "", ink.Paint(tabular.Faint, footnote(v)))
	for i := range lines {
		lines[i] = clip(lines[i], width)
	}
	return lines
}

// halfName says which half it is.
func halfName(on bool) string {
	if on {
		return "with the throttle"
	}
	return "without the throttle (in shadow: it counts, and everything passes)"
}

func phaseLine(v view, width int, ink tabular.Ink) string {
	name, hue := "WITHOUT THE THROTTLE", tabular.Bad
	if v.on {
		name, hue = "WITH THE THROTTLE", tabular.Good
	}
	const nameWidth = len("WITHOUT THE THROTTLE") // the bar stays where it is
	line := ink.Paint(hue, name) + strings.Repeat(" ", nameWidth-len(name)) + "  "
	if v.total <= 0 {
		return line + clock(v.elapsed)
	}
	elapsed := min(v.elapsed, v.total)
	times := clock(elapsed) + " of " + clock(v.total)
	room := min(width-nameWidth-2-1-len(times), 40)
	if room < 5 {
		return line + times
	}
	full := int(float64(room) * float64(elapsed) / float64(v.total))
	return line + ink.Paint(hue, strings.Repeat("█", full)) + ink.Paint(tabular.Faint, strings.Repeat("░", room-full)) + " " + times
}

func liveTable(v view, spark int) *tabular.Table {
	t := &tabular.Table{Columns: []tabular.Column{
		{Head: "ACCOUNT"},
		{Head: "SENT/s", Right: true, Rank: 5},
		{Head: "SERVED/s", Right: true},
		{Head: "REFUSED/s", Right: true, Rank: 1},
		{Head: "FAILED/s", Right: true, Rank: 1},
		{Head: "P50", Right: true, Rank: 4},
		{Head: "P99", Right: true, Rank: 2},
		{Head: "SERVED", Rank: 3},
	}}
	for _, r := range v.rows {
		failed, refused := tabular.Plain, tabular.Plain
		if r.failed > 0 {
			failed = tabular.Bad
		}
		if r.refused > 0 {
			refused = tabular.Warn
		}
		curve := tabular.Good
		if r.role == Flood {
			curve = tabular.Warn
		}
		t.Rows = append(t.Rows, []tabular.Cell{
			tabular.Tinted(tabular.Head, r.name), tabular.Text(perSecond(r.sent)), tabular.Text(perSecond(r.served)),
			tabular.Tinted(refused, perSecond(r.refused)), tabular.Tinted(failed, perSecond(r.failed)),
			tabular.Text(milliseconds(r.p50)), tabular.Text(milliseconds(r.p99)), tabular.Tinted(curve, sparkline(r.history, spark)),
		})
	}
	return t
}

func footnote(v view) string {
	if !v.on {
		return fmt.Sprintf("In shadow: it counts, everything passes. At work in %s.", clock(v.left+time.Second-1))
	}
	note := fmt.Sprintf("Each account may send %d a second.", v.limit)
	if v.total <= 0 {
		note += " Ctrl-C ends the demo."
	}
	return note
}

var sparks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last n values to the scale of the largest of them. Nothing is the lowest mark, and only nothing.
func sparkline(values []float64, n int) string {
	values = values[max(len(values)-n, 0):]
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if v > 0 {
			i = 1 + int(v/top*float64(len(sparks)-2))
		}
		b.WriteRune(sparks[min(i, len(sparks)-1)])
	}
	b.WriteString(strings.Repeat(" ", n-len(values)))
	return b.String()
}

func perSecond(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return grouped(int64(v + 0.5))
}

// clock writes whole seconds.
func clock(d time.Duration) string { return d.Truncate(time.Second).String() }
