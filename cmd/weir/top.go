package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"weir"
	"weir/console"
	"weir/internal/tabular"
)

type topCommand struct {
	target
	Names int  `placeholder:"N" default:"10" help:"Show at most this many who are held back, of each throttle. Default: 10."`
	Once  bool `help:"Show it once. Default: on a terminal, again every second until Ctrl-C."`
	JSON  bool `name:"json" help:"Print the overview as JSON, once, with the last five minutes of every gate and throttle."`
}

func (c *topCommand) Validate() error {
	if c.Names < 1 || c.Names > console.MaxTop {
		return fmt.Errorf("--names: from 1 to %d", console.MaxTop)
	}
	return nil
}

// topEvery is how often a terminal is drawn again.
const topEvery = time.Second

func (c *topCommand) Run(t *terminal) error {
	call := console.OverviewGetCall.With(console.OverviewQuery{Top: c.Names})
	if c.JSON || c.Once || !t.outTTY {
		return ask(t, c.target, c.JSON, call, t.top)
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx, release := interruptible()
	defer release()
	fmt.Fprint(t.out, "\x1b[?1049h\x1b[?25l") // another screen, without a cursor
	defer fmt.Fprint(t.out, "\x1b[?25h\x1b[?1049l")
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for {
		o, err := call(client, ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, console.ErrNotRunning):
			return err
		}
		var page bytes.Buffer
		screen := *t
		if screen.out = &page; err != nil {
			fmt.Fprintf(&page, "%s, asking again every second (Ctrl-C ends this)\n", err)
		} else {
			screen.top(&o)
		}
		fmt.Fprint(t.out, "\x1b[H", fitted(page.String()), "\x1b[J")
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// fitted is a page as it fits onto the terminal: the first lines, each cut and followed by nothing.
func fitted(page string) string {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	var b strings.Builder
	for i, line := range lines[:min(len(lines), max(height-1, 1))] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(tabular.Clip(line, width))
		b.WriteString("\x1b[K")
	}
	return b.String()
}

// top shows an overview: what passes each gate and throttle now, who is held back, the last refusals and changes.
func (t *terminal) top(o *console.Overview) {
	fmt.Fprintf(t.out, "weir is %s. All rates are events a second, at %s.\n", t.state(o.State, o.NotReady, o.ShadowAll),
		moment(o.At))
	t.emergency(o.ShadowAll)
	fmt.Fprintln(t.out)
	t.topGates(o.Gates)
	t.topThrottles(o.Throttles)
	t.heldBack("Held back lately", "nobody is held back now", o.Throttles,
		func(h *console.ThrottleWatch) []console.HeldBack { return h.Held })
	t.shadowed(o.Throttles)
	t.section("Last refusals", nil)
	t.refusals(&console.RefusalPage{Refusals: o.Refusals[:min(len(o.Refusals), 8)]})
	t.section("What changed", nil)
	for _, c := range o.Changes[:min(len(o.Changes), 8)] {
		fmt.Fprintf(t.out, "%s  %s: %s\n", moment(c.At), printable(c.By),
			strings.Join(slices.DeleteFunc([]string{c.What, printable(c.On), printable(c.Text)},
				func(s string) bool { return s == "" }), " "))
	}
}

func (t *terminal) topGates(all []console.GateWatch) {
	rows := table{heads: []string{"gate", "kind", "counts", "admitted", "delayed", "challenged", "refused", "would hold",
		"under way", "waiting", "adds (median)", "adds (99%)", "load", "price"}}
	for i := range all {
		g := &all[i]
		rows.row(text(g.Name), text(g.Kind), text(g.Unit), rate(g.Last(console.Admitted)),
			rate(g.Last(console.Delayed)), rate(g.Last(console.Challenged)), rate(g.Last(console.Refused)),
			rate(g.Last(console.Would)), level(g.Last(console.InFlight)), level(g.Last(console.Waiting)),
			lasting(g.Last(console.AddedMedian)), lasting(g.Last(console.AddedMost)), loaded(g.Last(console.Load)),
			lasting(g.Last(console.WorkSeconds)))
	}
	t.write(&rows)
	fmt.Fprintln(t.out)
}

func (t *terminal) topThrottles(all []console.ThrottleWatch) {
	rows := table{heads: []string{"throttle", "kind", "mode", "counts", "admitted", "delayed", "challenged", "refused",
		"waiting", "held back in the last hour"}}
	for i := range all {
		h := &all[i]
		columns := []console.Measure{console.Admitted, console.Delayed, console.Challenged, console.Refused}
		if h.Shadow {
			columns = []console.Measure{console.WouldAdmit, console.WouldDelay, console.WouldChallenge,
				console.WouldRefuse}
		}
		e := h.Hour.Events
		held := e[columns[1]] + e[columns[2]] + e[columns[3]]
		rows.row(text(h.Name), text(h.Kind), mode(h.Shadow), text(h.Unit), rate(h.Last(columns[0])),
			rate(h.Last(columns[1])), rate(h.Last(columns[2])), rate(h.Last(columns[3])),
			level(h.Last(console.Waiting)),
			cell{text: fmt.Sprintf("%s of %s", count64(held), count64(held+e[columns[0]])), right: true})
	}
	t.write(&rows)
}

// heldBack lists who is held back by each throttle.
func (t *terminal) heldBack(head, nobody string, all []console.ThrottleWatch,
	of func(*console.ThrottleWatch) []console.HeldBack) {
	rows := table{heads: []string{"who", "kind", "throttle", "lately", "in all", "since", "last"}}
	for i := range all {
		for _, h := range of(&all[i]) {
			rows.row(text(h.Name), text(h.Kind), text(h.Throttle), number(h.Recent-h.Over), number(h.Total),
				text(moment(h.First)), text(moment(h.Last)))
		}
	}
	if len(rows.rows) == 0 {
		t.section(head, nil)
		fmt.Fprintln(t.out, nobody)
		return
	}
	t.section(head, &rows)
}

// shadowed says what enforcing the throttles in shadow would have done.
func (t *terminal) shadowed(all []console.ThrottleWatch) {
	for i := range all {
		h := &all[i]
		n, of := h.Hour.WouldRefuse()
		if !h.Shadow || of == 0 {
			continue
		}
		fmt.Fprintf(t.out, "\n%s is in shadow: enforcing would have held back %s of %s %s since %s",
			printable(h.Name), count64(n), count64(of), h.Unit, moment(h.Hour.Since))
		var names []string
		for _, w := range h.Would[:min(len(h.Would), 5)] {
			names = append(names, fmt.Sprintf("%s (%d)", printable(w.Name), w.Total))
		}
		if len(names) > 0 {
			fmt.Fprintf(t.out, ", most of all of %s", strings.Join(names, ", "))
		}
		fmt.Fprintln(t.out)
	}
}

func count64(n float64) string { return strconv.FormatInt(int64(n), 10) }

// rate is how many a second; empty where that is not known.
func rate(n float64) cell {
	digits := 0
	if n > 0 && n < 10 {
		digits = 1
	}
	return figure(n, strconv.FormatFloat(n, 'f', digits, 64))
}

func level(n float64) cell  { return figure(n, strconv.FormatFloat(n, 'f', 0, 64)) }
func loaded(n float64) cell { return figure(n, strconv.FormatFloat(100*n, 'f', 0, 64)+"%") }

// lasting is a time in seconds, in as many digits as it is worth.
func lasting(seconds float64) cell {
	d, unit := time.Duration(seconds*float64(time.Second)), time.Microsecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return figure(seconds, weir.Duration(d.Round(unit)).String())
}

func figure(n float64, text string) cell {
	if math.IsNaN(n) {
		text = ""
	}
	return cell{text: text, right: true}
}
