package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"reflect"
	"time"

	"weir"
	"weir/gate/httpgate"
	"weir/gate/httpgate/accesslog"
	"weir/internal/logs"
	"weir/traces"
)

// Bounds of an access log with a destination of its own.
const (
	accessBound    = 4 << 20 // bytes that wait for a slow disk or reader
	accessEnough   = 64 << 10
	accessEvery    = time.Second
	accessPatience = 5 * time.Second // how long the end waits for the disk
)

// boundAccess is counted for each line of the access log that there was no room for, or that could not be written.
const boundAccess = "access_log_lines"

// An accessLog is the access log of a generation. Its destination stays as long as the configuration names the same.
type accessLog struct {
	opts accesslog.Options
	to   *destination // nil where lines are part of the log
}

// A destination is where the lines of the access log go.
type destination struct {
	name   string
	file   *logs.File // nil for stdout and stderr
	buffer *logs.Buffer
	shared bool // the buffer is that of the log
}

// Write takes a line. It neither waits nor fails.
func (d *destination) Write(line []byte) (int, error) { return d.buffer.Write(line) }

// ready is the log for gates.
func (l *accessLog) ready() accesslog.Log {
	if l.to == nil {
		return l.opts.Ready(nil)
	}
	return l.opts.Ready(l.to)
}

// prepareAccess opens the file of the access log, also where it is open already: it may have been moved away.
func (c *change) prepareAccess() error {
	next := &accessLog{opts: c.next.cfg.Log.Access}
	c.next.access = next
	before := (*destination)(nil)
	if c.old.access != nil {
		before = c.old.access.to
	}
	if name := next.opts.To; name != "" {
		if before != nil && before.name == name {
			next.to, before = before, nil
			if err := c.reopenAccess(next.to); err != nil {
				return err
			}
		} else {
			next.to = &destination{name: name}
			if c.live {
				if err := c.app.openAccess(c.next); err != nil {
					return err
				}
				c.undo.add(func() { c.app.closeAccess(next) })
			}
		}
	}
	app, old := c.app, c.old.gates
	c.commit = append(c.commit, func() {
		for _, gt := range old { // those that are to go, too: they may have requests under way
			if g, ok := gt.Gate.(*httpgate.Gate); ok {
				g.SetAccess(next.ready())
			}
		}
		if before != nil {
			app.background.Go(func() { app.closeAccess(&accessLog{to: before}) })
		}
	})
	return nil
}

// reopenAccess opens the file of a destination that stays again.
func (c *change) reopenAccess(d *destination) error {
	if d.file == nil {
		return nil
	}
	commit, abort, err := d.file.Replace()
	if err != nil {
		return accessMistake(err)
	}
	c.undo.add(abort)
	c.commit = append(c.commit, commit)
	return nil
}

func accessMistake(err error) error {
	hint := ""
	switch {
	case errors.Is(err, logs.ErrNotFile):
		hint = "name a file, or stdout"
	case errors.Is(err, os.ErrNotExist):
		hint = "make its folder, and let the user that weir runs as write there"
	case errors.Is(err, os.ErrPermission):
		hint = "let the user that weir runs as write there"
	}
	return &weir.FieldError{Path: "log.access.to", Msg: err.Error(), Hint: hint}
}

// openAccess opens the destination of a generation, if it has one.
func (a *App) openAccess(g *generation) error {
	d := g.access.to
	if d == nil {
		return nil
	}
	var to io.Writer
	switch {
	case d.name == accesslog.Stderr && a.opts.LogBuffer != nil:
		d.buffer, d.shared = a.opts.LogBuffer, true // lines of two writers could end up in each other
		return nil
	case d.name == accesslog.Stderr:
		to = os.Stderr
	case d.name == accesslog.Stdout:
		to = os.Stdout
	default:
		line := rareWarning(a.opts.Log)
		file, err := logs.Open(d.name, func(err error) {
			line("the file of the access log cannot be opened again: lines go on to the old one", "err", err)
		})
		if err != nil {
			return accessMistake(err)
		}
		d.file, to = file, file
	}
	d.buffer = logs.NewGathering(to, accessBound, accessEnough, accessEvery)
	metrics, log := a.metrics, a.opts.Log
	d.buffer.Tell(func(lines int64) { metrics.Count("weir_bound_reached_total", int(lines), boundAccess) }, func(lines int64) {
		log.Warn("lines of the access log were dropped: its destination is too slow, or cannot be written",
			"lines", lines, "to", d.name)
	})
	return nil
}

// closeAccess writes what waits, and closes the file.
func (a *App) closeAccess(l *accessLog) {
	d := l.to
	if d == nil || d.buffer == nil || d.shared {
		return
	}
	if d.buffer.Close(accessPatience); d.file == nil {
		return
	}
	if d.buffer.Stuck(time.Now()) > 0 {
		a.opts.Log.Warn("lines of the access log are lost: its disk does not answer", "to", d.name)
		return // it is being written to
	}
	_ = d.file.Close()
}

// rareWarning logs a warning, but not every time.
func rareWarning(log *slog.Logger) func(message string, args ...any) {
	began, line := time.Now(), new(logs.Line)
	return func(message string, args ...any) {
		if more, ok := line.Now(time.Since(began)); ok {
			log.Warn(message, append(args, "unlogged_before", more)...)
		}
	}
}

// tracePatience is how long the collector may take for the last spans.
const tracePatience = 5 * time.Second

// prepareTraces keeps the tracer if its options stay.
func (c *change) prepareTraces() error {
	o, old := c.next.cfg.Traces, c.old.tracer
	same := c.old.cfg != nil && reflect.DeepEqual(o, c.old.cfg.Traces)
	switch {
	case same:
		c.next.tracer = old
		return nil
	case o.Enabled():
		app := c.app
		next, err := traces.New(o, traces.Env{Log: app.opts.Log, Version: app.opts.Version, Count: app.countSpans})
		if err != nil {
			return weir.Under("traces", err)
		}
		for _, result := range traces.Results {
			app.countSpans(result, 0)
		}
		c.next.tracer = next
		if c.live {
			next.Start()
			c.undo.add(func() { next.Close(ended()) })
		}
	}
	app, next, gates := c.app, c.next.tracer, c.old.gates
	c.commit = append(c.commit, func() {
		for _, gt := range gates {
			if g, ok := gt.Gate.(*httpgate.Gate); ok {
				g.SetTracer(next)
			}
		}
		if old != nil {
			app.background.Go(func() { closeTracer(old) })
		}
	})
	return nil
}

// closeTracer sends what waits.
func closeTracer(t *traces.Tracer) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tracePatience)
	defer cancel()
	t.Close(ctx)
}

// countSpans counts what became of spans.
func (a *App) countSpans(result string, n int64) {
	a.metrics.Count("weir_traces_spans_total", int(n), result)
}
