package app

import (
	"sync/atomic"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/gate/httpgate"
)

// An observer writes what happens at one gate into the metrics.
type observer struct {
	all      *console.Metrics
	gate     *console.HTTPMetrics
	waiting  atomic.Int64
	inFlight atomic.Int64
}

var _ httpgate.Observer = (*observer)(nil)

// Waiting counts requests that are held back.
func (o *observer) Waiting(delta int) {
	o.waiting.Add(int64(delta))
	o.gate.Waiting(delta)
}

// InFlight counts requests that are under way, those that wait included.
func (o *observer) InFlight(delta int) {
	o.inFlight.Add(int64(delta))
	o.gate.InFlight(delta)
}

// load is how many requests are under way, and how many of those wait.
func (o *observer) load() (inFlight, waiting int64) { return o.inFlight.Load(), o.waiting.Load() }

// Served counts a request that was answered.
func (o *observer) Served(v weir.Verdict, status int, added, total time.Duration) {
	o.gate.Done(status, v, added, total)
}

// Bounded counts what was turned away at a bound.
func (o *observer) Bounded(bound string) { o.all.BoundReached(boundName(bound)) }

// boundName is the name of a gate's bound among all bounds.
func boundName(bound string) string { return "http_" + bound }

// gateEnv is what a gate gets of its surroundings.
func (a *App) gateEnv(o httpgate.Options, log config.Log, seen *observer) httpgate.Env {
	return httpgate.Env{
		Clock: a.opts.Clock, Log: a.opts.Log.With("gate", o.Listen), Access: httpgate.AccessLog(log.Access), Observer: seen,
	}
}
