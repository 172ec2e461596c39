package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"weir"
	"weir/lab/flood"
	"weir/throttle/stamp"
)

type benchCommand struct {
	Flood  benchFloodCommand  `cmd:"" help:"Measure what people get while a service is flooded: with nothing in front, with nginx, with HAProxy and with weir. Also after a flood, beside invented keys, and beside an attacker who pays. Takes some minutes." example:"weir bench flood --fronts none,weir"`
	Solver benchSolverCommand `cmd:"" hidden:"" help:"Make stamps for weir bench flood, as it asks on standard input."`
}

// benchSolverCommand is weir bench solver, which weir bench flood starts.
type benchSolverCommand struct{}

func (c *benchSolverCommand) Run(t *terminal) error { return flood.ServeSolver(os.Stdin, t.out) }

type benchFloodCommand struct {
	For             time.Duration   `default:"12s" placeholder:"TIME" help:"How long visitors are counted in each round. Default ${default}."`
	WarmUp          time.Duration   `default:"8s" placeholder:"TIME" help:"How long each round warms up before anything is counted. Default ${default}."`
	Scene           []string        `default:"flood,after,keys,payer,turns,shared,uploads" placeholder:"NAME" help:"What to play: people under a flood (flood), programs after one (after), a client of an API beside invented keys (keys), people beside an attacker who pays (payer) or beside many who pay for each request (turns), people who share an address beside them (shared), programs beside slow uploads (uploads). Default all."`
	Flood           string          `default:"both" enum:"many,few,both" placeholder:"KIND" help:"The flood: from many slow sources (many), from a few fast ones (few), or both. Default ${default}."`
	Fronts          []string        `placeholder:"NAME" help:"What to compare: some of none, nginx, haproxy, weir. Default: all that are installed."`
	Algorithm       stamp.Algorithm `default:"sha256-k" placeholder:"NAME" help:"The puzzle of weir's stamps: sha256-k, eqs60, dlog or dlog-classic. Default ${default}."`
	Concurrent      int             `default:"8" placeholder:"N" help:"How many requests the service works on at once. Default ${default}."`
	Work            time.Duration   `default:"20ms" placeholder:"TIME" help:"How long the service works on each request. Default ${default}."`
	Times           float64         `default:"10" placeholder:"N" help:"The size of the flood, as a multiple of the capacity of the service. Default ${default}."`
	Patience        time.Duration   `default:"5s" placeholder:"TIME" help:"How long people wait. Default ${default}."`
	PatienceWithout time.Duration   `default:"1m" placeholder:"TIME" help:"How long people without JavaScript wait; they see that there is a line. Default ${default}."`
	reportFlag
	JSON bool `name:"json" help:"Print only the report, as JSON."`
}

func (c *benchFloodCommand) options() flood.Options {
	o := flood.Options{Fronts: c.Fronts}.WithDefaults()
	o.For, o.WarmUp, o.Concurrent, o.Work, o.Times = c.For, c.WarmUp, c.Concurrent, c.Work, c.Times
	o.Algorithm = c.Algorithm
	o.Patience, o.Patient = c.Patience, c.PatienceWithout
	o.Version = versionOf().Version
	o.Solver, _ = os.Executable() // without it, they are made here
	o.Scenes = nil
	for _, s := range c.Scene {
		o.Scenes = append(o.Scenes, flood.Scene(s))
	}
	if c.Flood != "both" {
		o.Kinds = []flood.Kind{flood.Kind(c.Flood)}
	}
	return o
}

func (c *benchFloodCommand) Validate() error {
	var all []error
	for _, mistake := range weir.FieldErrors(c.options().Validate()) {
		all = append(all, fmt.Errorf("--%w", mistake)) // the fields have the names of the flags
	}
	return errors.Join(append(all, c.reportFlag.validate())...)
}

// Run compares. A first signal ends it early and reports what is finished; a second one ends it at once.
func (c *benchFloodCommand) Run(t *terminal) error {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer release()
	defer context.AfterFunc(ctx, release)()
	o := c.options()
	if t.errTTY && os.Getenv("TERM") != "dumb" {
		o.Watch = func(p flood.Progress) { fmt.Fprintf(t.err, "\r%s\x1b[K", progressBar(p, 24)) }
	}
	report, err := flood.Run(ctx, o)
	if t.errTTY {
		io.WriteString(t.err, "\r\x1b[K")
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	if err != nil && len(report.Floods)+len(report.Scenes) == 0 {
		return errors.New("it was stopped before anything was finished")
	}
	if shown := c.finish(t, report.Sheet(), c.JSON, &report); shown != nil {
		return shown
	}
	if err != nil {
		return errors.New("it was stopped before the end; what is shown is what was finished")
	}
	return nil
}

// widthOf returns the width of a terminal; 0 where out is not a terminal.
func widthOf(out io.Writer) int {
	if o, ok := out.(*output); ok {
		out = o.Writer
	}
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

func progressBar(p flood.Progress, width int) string {
	part := min(p.Elapsed.Seconds()/p.Expected.Seconds(), 1)
	full := int(float64(width) * (float64(p.Round-1) + part) / float64(p.Rounds))
	what := fmt.Sprintf("%s of %s", p.Elapsed.Truncate(time.Second), p.Expected)
	if part == 1 {
		what = "waiting for the last visitors"
	}
	scene := string(p.Scene)
	if p.Kind != "" {
		scene = string(p.Kind) + " sources"
	}
	return fmt.Sprintf("%s%s %d/%d: %s, %s, %s", strings.Repeat("█", full), strings.Repeat("░", width-full), p.Round,
		p.Rounds, p.Front, scene, what)
}
