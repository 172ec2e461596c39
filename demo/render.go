package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// How many seconds the curve in the live table shows.
const (
	sparkMost  = 30
	sparkLeast = 8
)

// render draws the live table. It is a function of what it is given, and no line is wider than width.
func render(v view, width int, colour bool) []string {
	ink := ink(colour)
	lines := []string{phaseLine(v, width, ink), ""}
	t := liveTable(v, sparkMost)
	for n := sparkMost - 1; n >= sparkLeast && t.width() > width; n-- {
		t = liveTable(v, n)
	}
	lines = append(lines, t.lines(width, ink)...)
	lines = append(lines, "", ink.paint(faint, footnote(v)))
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

func phaseLine(v view, width int, ink ink) string {
	name, hue := "WITHOUT THE THROTTLE", bad
	if v.on {
		name, hue = "WITH THE THROTTLE", good
	}
	const nameWidth = len("WITHOUT THE THROTTLE") // the bar stays where it is
	line := ink.paint(hue, name) + strings.Repeat(" ", nameWidth-len(name)) + "  "
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
	return line + ink.paint(hue, strings.Repeat("█", full)) + ink.paint(faint, strings.Repeat("░", room-full)) + " " + times
}

func liveTable(v view, spark int) *table {
	t := &table{columns: []column{
		{head: "ACCOUNT"},
		{head: "SENT/s", right: true, rank: 5},
		{head: "SERVED/s", right: true},
		{head: "REFUSED/s", right: true, rank: 1},
		{head: "FAILED/s", right: true, rank: 1},
		{head: "P50", right: true, rank: 4},
		{head: "P99", right: true, rank: 2},
		{head: "SERVED", rank: 3},
	}}
	for _, r := range v.rows {
		failed, refused := plainly, plainly
		if r.failed > 0 {
			failed = bad
		}
		if r.refused > 0 {
			refused = warn
		}
		curve := good
		if r.role == Flood {
			curve = warn
		}
		t.rows = append(t.rows, []cell{
			{r.name, head}, {perSecond(r.sent), plainly}, {perSecond(r.served), plainly}, {perSecond(r.refused), refused},
			{perSecond(r.failed), failed}, {milliseconds(r.p50), plainly}, {milliseconds(r.p99), plainly},
			{sparkline(r.history, spark), curve},
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
