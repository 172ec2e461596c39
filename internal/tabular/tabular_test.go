package tabular

import (
	"slices"
	"testing"
)

func TestLines(t *testing.T) {
	table := Table{Columns: []Column{{Head: "NAME"}, {Head: "LEFT", Right: true}, {Head: "WHY", Rank: 1}},
		Rows: [][]Cell{
			{Text("übermaß"), Text("7"), Tinted(Bad, "over")},
			{Text("across all of them")},
			{Text("b"), Text("1200"), Text("")},
		}}
	for _, c := range []struct {
		width int
		ink   Ink
		want  []string
	}{
		{0, false, []string{"NAME     LEFT  WHY", "übermaß     7  over", "across all of them", "b        1200"}},
		// the least needed column goes
		{14, false, []string{"NAME     LEFT", "übermaß     7", "across all of them", "b        1200"}},
		{0, true, []string{"\x1b[1mNAME\x1b[0m     \x1b[1mLEFT\x1b[0m  \x1b[1mWHY\x1b[0m",
			"übermaß     7  \x1b[31mover\x1b[0m", "across all of them", "b        1200"}},
	} {
		if got := table.Lines(c.width, c.ink); !slices.Equal(got, c.want) {
			t.Errorf("width %d:\n got %q\nwant %q", c.width, got, c.want)
		}
	}
	if w := table.Width(); w != 19 {
		t.Errorf("width %d", w)
	}
}
