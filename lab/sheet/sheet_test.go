package sheet

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"weir/internal/tabular"
)

func sample() *Sheet {
	t := Grid([]string{"user", "messages"}, []string{"ann\x1b[2J", "1,234"})
	t.Rows[0][1].Tint = tabular.Bad
	return &Sheet{Command: "simulate x", Title: "A title", About: []string{"What was looked at."},
		Verdict: []string{"It is so."}, Tiles: []Tile{{"5", "stops", "of 2 users"}}, Readings: []string{"A reading."},
		Sections: []Section{{ID: "empty", Title: "Plots only"},
			{ID: "users", Title: "Users", Text: []string{"Some <words>."}, Table: t, Code: "a: b\n"}}}
}

// TestLines: a terminal gets the same as the page, without plots and readings, and nothing that it would obey.
func TestLines(t *testing.T) {
	printable := func(s string) string { return strings.ReplaceAll(s, "\x1b", "?") }
	want := []string{"What was looked at.", "", "It is so.", "", "stops  5  of 2 users", "", "Users", "Some <words>.",
		"USER     MESSAGES", "ann?[2J     1,234", "", "a: b"}
	if got := sample().Lines(0, false, printable); !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if got := sample().Lines(12, false, printable); !slices.Contains(got, "stops  5") {
		t.Errorf("%q", got)
	}
}

func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Page(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>A title</h1>", `<section id="users">`, "Some &lt;words&gt;.", "<li>A reading.",
		`<td data-label="messages" class="bad n">1,234`, "weir simulate x</code>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}
