//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"weir/internal/tabular"
	floods "weir/lab/flood" // flood is what B4 does
	"weir/lab/sheet"
	"weir/throttle/stamp"
)

// underFlood is S9: what people get while a service of fixed capacity is flooded with ten times as much as it can do,
// with nothing in front of it, with nginx, with HAProxy and with weir. The peers are for comparison. A peer that is not
// installed is left out. See docs/flood.md.
func underFlood(t *trial) []figure {
	run := floods.Options{Scenes: []floods.Scene{floods.UnderFlood}}
	if t.quick {
		run.For, run.WarmUp, run.Patient = time.Second, time.Second, 4*time.Second
		run.Kinds = floods.Kinds[:1]
	}
	return t.runFlood("S9", run)
}

// afterFlood is S10: what clients get that a throttle may shut out by mistake. Programs that neither pay nor keep
// tickets, when a flood is over; a client of an API beside invented keys; people beside an attacker who pays, and
// beside many who pay for every request, also where they share an address; programs beside slow uploads. The peers are
// for comparison. See docs/flood.md.
func afterFlood(t *trial) []figure {
	run := floods.Options{Scenes: floods.Scenes[1:]}
	if t.quick {
		run.For, run.WarmUp, run.Haste = 150*time.Millisecond, 50*time.Millisecond, 100
	}
	return t.runFlood("S10", run)
}

// runFlood runs scenes with a weir that is built for them, and names the peers that are left out. Each row of the
// tables that weir bench flood shows is a figure.
func (t *trial) runFlood(row string, run floods.Options) (figures []figure) {
	run.Solver, run.Algorithm = buildWeir(t.folder()), t.algorithm
	if t.algorithm != stamp.SHA256K {
		run.Fronts = []string{"weir"} // what the others do does not depend on the puzzle, and takes ten minutes
	}
	run.Watch = told(row)
	r, err := floods.Run(t.context(), run)
	for _, l := range r.LeftOut {
		fmt.Fprintf(os.Stderr, "%s: %s is left out: %s\n", row, l.Front, l.Why)
	}
	check(err)
	for _, s := range r.Sheet().Sections {
		if s.Table == nil {
			continue
		}
		for _, cells := range s.Table.Rows {
			figures = append(figures, floodFigure(s, cells))
		}
	}
	return figures
}

// floodFigure is a row of a table: in its first column is what stands in front, in its last one whether the target was
// met. Only weir has a target.
func floodFigure(s sheet.Section, cells []tabular.Cell) figure {
	front, last := cells[0].Text, len(cells)-1
	what, got := fmt.Sprintf("%s; %s in front", s.Title, front), []string{}
	for i, c := range s.Table.Columns[1:last] {
		if text := cells[i+1].Text; c.Head == "beside" {
			what += ", beside " + text
		} else {
			got = append(got, c.Head+" "+text)
		}
	}
	v := value{text: strings.Join(got, "; ")}
	if verdict := cells[last].Text; front == "weir" && verdict != "" {
		v.target, v.met = "≥ 95 % / ≥ 10 % of capacity, or all", verdict == "met"
		if _, target, found := strings.Cut(strings.Join(s.Text, " "), "Target: "); found {
			v.target = target
		}
	}
	return figure{what, []value{v}, ""}
}

// told says on standard error which round begins, as each takes up to 80 seconds.
func told(row string) func(floods.Progress) {
	last := 0
	return func(p floods.Progress) {
		if p.Round != last {
			last = p.Round
			fmt.Fprintf(os.Stderr, "%s: round %d of %d, %s %s, %s\n", row, p.Round, p.Rounds, p.Scene, p.Kind, p.Front)
		}
	}
}
