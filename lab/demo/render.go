package demo

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/tabular"
)

func halfName(on bool) string {
	if on {
		return "with the throttle"
	}
	return "without the throttle (in shadow: it counts, and everything passes)"
}

// render draws the live table: the report so far. Its result depends on its arguments only, and no line is wider than
// width.
func render(scene *Scene, r *SceneReport, hint string, width int, ink tabular.Ink) []string {
	lines := append(figures(scene, r).Lines(width, ink), "", ink.Paint(tabular.Faint, hint))
	now := r.Half
	if len(now.Actors) == 0 {
		now = r.Without
	}
	if b := now.Bloom; b != nil {
		lines = append(lines, ink.Paint(tabular.Faint, fmt.Sprintf("Tables: %s. Over their limit: up to %s networks "+
			"at a time.", mebibytes(b.Bytes), grouped(b.Attackers))))
	}
	if s := now.Stamps; s != nil {
		lines = append(lines, ink.Paint(tabular.Faint, fmt.Sprintf("Load: up to %s of the service. A stamp takes a "+
			"phone %s.", percent(s.PeakLoad), milliseconds(s.EndMS))))
	}
	for i := range lines {
		lines[i] = tabular.Clip(lines[i], width)
	}
	return lines
}

// The heads of columns that are left out where networks do not matter, and where nothing is held.
const (
	networksHead = "NETWORKS"
	heldHead     = "HELD BACK"
)

// figures is the table of both halves, as far as they have begun.
func figures(scene *Scene, r *SceneReport) *tabular.Table {
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
	networks := false
	for _, half := range []struct {
		name string
		hue  tabular.Tint
		Half
	}{{"without the throttle", tabular.Bad, r.Without}, {"with the throttle", tabular.Good, r.Half}} {
		if len(half.Actors) == 0 {
			continue
		}
		t.Rows = append(t.Rows,
			[]tabular.Cell{tabular.Tinted(half.hue, fmt.Sprintf("%s, %s", half.name, seconds(half.Seconds)))})
		for _, a := range half.Actors {
			networks = networks || a.Networks > 0
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
	if !networks {
		t.Drop(networksHead)
	}
	if !scene.holds() {
		t.Drop(heldHead)
	}
	return t
}

// summary is what stays on the screen after a scene: a table of both halves, and what the scene tells. A width of 0 is
// no bound.
func summary(scene *Scene, r *SceneReport, width int, colour bool) []string {
	ink := tabular.Ink(colour)
	lines := append(figures(scene, r).Lines(width, ink), "")
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
