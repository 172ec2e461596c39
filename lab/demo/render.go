package demo

import (
	"fmt"
	"slices"
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

// render draws the live table. Its result depends on its arguments only, and no line is wider than width.
func render(v view, width int, colour bool) []string {
	ink := tabular.Ink(colour)
	lines := []string{phaseLine(v, width, ink), ""}
	t := liveTable(v, sparkMost)
	for n := sparkMost - 1; n >= sparkLeast && t.Width() > width; n-- {
		t = liveTable(v, n)
	}
	lines = append(lines, t.Lines(width, ink)...)
	lines = append(lines, "")
	for _, d := range v.dials {
		lines = append(lines, dialLine(d, width, ink))
	}
	if len(v.dials) > 0 {
		lines = append(lines, "")
	}
	for _, note := range footnotes(v) {
		lines = append(lines, ink.Paint(tabular.Faint, note))
	}
	for i := range lines {
		lines[i] = tabular.Clip(lines[i], width)
	}
	return lines
}

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
	wide := min(width-nameWidth-2-1-len(times), 40)
	if wide < 5 {
		return line + times
	}
	full := int(float64(wide) * float64(elapsed) / float64(v.total))
	return line + ink.Paint(hue, strings.Repeat("█", full)) + ink.Paint(tabular.Faint, strings.Repeat("░", wide-full)) +
		" " + times
}

func liveTable(v view, spark int) *tabular.Table {
	t := &tabular.Table{Columns: []tabular.Column{
		{Head: "WHO"},
		{Head: networksHead, Right: true, Rank: 1},
		{Head: "SENT/s", Right: true, Rank: 5},
		{Head: "SERVED/s", Right: true},
		{Head: heldHead, Right: true},
		{Head: "REFUSED/s", Right: true, Rank: 1},
		{Head: "FAILED/s", Right: true, Rank: 1},
		{Head: "P50", Right: true, Rank: 4},
		{Head: "P99", Right: true, Rank: 2},
		{Head: "SERVED", Rank: 3},
	}}
	for _, r := range v.rows {
		failed, refused, held := tabular.Plain, tabular.Plain, tabular.Plain
		if r.held > 0 {
			held = tabular.Warn
		}
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
			tabular.Tinted(tabular.Head, r.name), tabular.Text(grouped(r.networks)), tabular.Text(perSecond(r.sent)),
			tabular.Text(perSecond(r.served)), tabular.Tinted(held, grouped(r.held)),
			tabular.Tinted(refused, perSecond(r.refused)), tabular.Tinted(failed, perSecond(r.failed)),
			tabular.Text(milliseconds(r.p50)), tabular.Text(milliseconds(r.p99)),
			tabular.Tinted(curve, sparkline(r.history, spark)),
		})
	}
	if !slices.ContainsFunc(v.rows, func(r row) bool { return r.networks > 0 }) {
		t = without(t, networksHead)
	}
	if !v.holds {
		t = without(t, heldHead)
	}
	return t
}

// dialLine shows a value, its history, and its unit if there is room for that.
func dialLine(d dial, width int, ink tabular.Ink) string {
	head := fmt.Sprintf("%s  %8s  ", d.name, d.value)
	curve, unit := sparkline(d.history, min(max(width-tabular.Visible(head), sparkLeast), sparkMost)), "  "+d.unit
	if d.unit == "" || tabular.Visible(head+curve+unit) > width {
		curve, unit = strings.TrimRight(curve, " "), ""
	}
	return ink.Paint(tabular.Head, head) + ink.Paint(tabular.Warn, curve) + unit
}

// The heads of columns that are left out where networks do not matter, and where nothing is held.
const (
	networksHead = "NETWORKS"
	heldHead     = "HELD BACK"
)

// without removes a column from a table.
func without(t *tabular.Table, head string) *tabular.Table {
	i := slices.IndexFunc(t.Columns, func(c tabular.Column) bool { return c.Head == head })
	t.Columns = slices.Delete(t.Columns, i, i+1)
	for j, cells := range t.Rows {
		if len(cells) > 1 {
			t.Rows[j] = slices.Delete(cells, i, i+1)
		}
	}
	return t
}

func footnotes(v view) []string {
	notes := []string{v.rule}
	if !v.on {
		notes = []string{fmt.Sprintf("In shadow: it counts, everything passes. At work in %s.",
			clock(v.left+time.Second-1))}
	}
	if b := v.bloom; b != nil {
		notes = append(notes, fmt.Sprintf("Tables: %s. Over their limit: up to %s networks at a time.",
			mebibytes(b.Bytes), grouped(b.Attackers)))
	}
	if v.on && v.total <= 0 {
		notes[0] += " Ctrl-C ends the demo."
	}
	return notes
}

var sparks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last n values to the scale of the largest of them. Only 0 has the lowest mark.
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

func clock(d time.Duration) string { return d.Truncate(time.Second).String() }

// summary is what stays on the screen after a scene: a table of both halves, and what the scene tells. A width of 0 is
// no bound.
func summary(scene *Scene, r *SceneReport, width int, colour bool) []string {
	t := &tabular.Table{Columns: []tabular.Column{
		{Head: "WHO"},
		{Head: networksHead, Right: true, Rank: 1},
		{Head: "SENT", Right: true},
		{Head: "SERVED", Right: true},
		{Head: "SHARE", Right: true, Rank: 3},
		{Head: heldHead, Right: true},
		{Head: "REFUSED", Right: true},
		{Head: "FAILED", Right: true},
		{Head: "P50", Right: true, Rank: 4},
		{Head: "P99", Right: true, Rank: 2},
	}}
	for _, half := range []struct {
		name string
		hue  tabular.Tint
		Half
	}{{"without the throttle", tabular.Bad, r.Without}, {"with the throttle", tabular.Good, r.Half}} {
		t.Rows = append(t.Rows,
			[]tabular.Cell{tabular.Tinted(half.hue, fmt.Sprintf("%s, %s", half.name, seconds(half.Seconds)))})
		for _, a := range half.Actors {
			failed := tabular.Plain
			if a.Failed > 0 {
				failed = tabular.Bad
			}
			t.Rows = append(t.Rows, []tabular.Cell{
				tabular.Text("  " + a.Name), tabular.Text(grouped(a.Networks)), tabular.Text(grouped(a.Sent)),
				tabular.Text(grouped(a.Served)),
				tabular.Text(share(a.Figures)), tabular.Text(grouped(a.Held)), tabular.Text(grouped(a.Refused)),
				tabular.Tinted(failed, grouped(a.Failed)), tabular.Text(milliseconds(a.P50)),
				tabular.Text(milliseconds(a.P99)),
			})
		}
	}
	if r.FloodNetworks == 0 {
		t = without(t, networksHead)
	}
	if !scene.holds() {
		t = without(t, heldHead)
	}
	ink := tabular.Ink(colour)
	lines := append(t.Lines(width, ink), "")
	for _, told := range scene.tell(*r) {
		lines = append(lines, wrap(told, width)...)
	}
	for i, c := range r.Checks {
		if i == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, checked(c, width, ink)...)
	}
	return lines
}

func checked(c Check, width int, ink tabular.Ink) []string {
	mark := ink.Paint(tabular.Good, "✓")
	if !c.OK {
		mark = ink.Paint(tabular.Bad, "✗")
	}
	lines := wrap(c.What, max(width-2, 0))
	for i := range lines {
		lines[i] = mark + " " + lines[i]
		mark = " "
	}
	return lines
}

// names lists the actors of a role: a, b and c.
func names(actors []ActorReport, role Role) string {
	var all []string
	for _, a := range actors {
		if a.Role == role {
			all = append(all, a.Name)
		}
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// share says how much of what was sent was served. Only all of it is 100%.
func share(f Figures) string {
	if f.Sent == 0 {
		return "-"
	}
	percent := 100 * float64(f.Served) / float64(f.Sent)
	if percent > 0 && percent < 10 {
		return strconv.FormatFloat(percent, 'f', 1, 64) + "%"
	}
	return strconv.Itoa(int(percent)) + "%"
}

func milliseconds(ms float64) string {
	switch {
	case ms == 0:
		return "-"
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	}
	return grouped(int64(ms+0.5)) + " ms"
}

func mebibytes(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB" }

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 1, 64) + " s" }

func grouped(n int64) string { return tabular.Grouped(n) }

// wrap breaks a text into lines, of a readable length where there is no width.
func wrap(text string, width int) []string {
	const readable = 100
	if width <= 0 || width > readable {
		width = readable
	}
	return tabular.Wrap(text, width)
}
