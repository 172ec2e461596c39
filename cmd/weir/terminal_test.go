package main

import (
	"bytes"
	"testing"

	"weir/internal/tabular"
)

func TestTable(t *testing.T) {
	b := &table{heads: []string{"throttle", "refused", "why"}}
	b.row(text("plans"), number(7), cell{text: "over", tint: tabular.Bad})
	b.row(text("übermaß"), number(1200), cell{})
	b.row(text("evil\x1b[2J"), number(0), text("x"))
	var out bytes.Buffer
	(&terminal{out: &out}).write(b)
	want := `THROTTLE       REFUSED  WHY
plans                7  over
übermaß           1200
"evil\x1b[2J"        0  x
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	(&terminal{out: &out, colour: true}).write(&table{heads: []string{"a", "b"},
		rows: [][]cell{{{text: "x", tint: tabular.Good}, text("y")}}})
	if want := "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m\n\x1b[32mx\x1b[0m  y\n"; out.String() != want {
		t.Errorf("in colour: %q, want %q", out.String(), want)
	}
}
