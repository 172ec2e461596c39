package app

import (
	"context"
	"reflect"
	"time"

	"weir"
	"weir/gate/httpgate"
	"weir/traces"
)

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
