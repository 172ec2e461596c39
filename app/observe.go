package app

import (
	"sync/atomic"
	"time"

	"weir"
	"weir/console"
	"weir/gate/apigate"
	"weir/gate/authgate"
	"weir/gate/httpgate"
	"weir/gate/tcpgate"
	"weir/internal/logs"
	"weir/mail/spool"
	"weir/policy"
	"weir/throttle/stamp"
	"weir/upstream"
)

// traffic is what goes on at a gate, for the console. It stays when the gate is reloaded.
type traffic struct {
	policy.GateFigures
	inFlight atomic.Int64  // requests, connections, sessions or holds
	waiting  atomic.Int64  // of them, those that are held back
	delayed  atomic.Uint64 // those that began to wait
	// judged counts verdicts where nothing that is as cheap to read does.
	judged [len(weir.Verdicts)]atomic.Uint64
	counts func() console.GateCounts // where the metrics do
}

func (t *traffic) Waiting(delta int) {
	t.waiting.Add(int64(delta))
	if delta > 0 {
		t.delayed.Add(uint64(delta))
	}
}

// verdicts are those of the gate so far, and what it added to requests, where that is known.
func (t *traffic) verdicts() (all console.GateCounts) {
	if t.counts != nil {
		all = t.counts()
	}
	for v := range t.judged {
		all.Verdicts[v] += t.judged[v].Load()
	}
	return all
}

// A httpObserver writes what happens at an HTTP gate into the metrics.
type httpObserver struct {
	*traffic
	http *console.HTTPMetrics
	all  *console.Metrics
}

var _ httpgate.Observer = httpObserver{}

func (o httpObserver) Waiting(delta int) {
	o.traffic.Waiting(delta)
	o.http.Waiting(delta)
}

func (o httpObserver) Reading(delta int) { o.http.Reading(delta) }

func (o httpObserver) InFlight(delta int) {
	o.inFlight.Add(int64(delta))
	o.http.InFlight(delta)
}

func (o httpObserver) Served(v weir.Verdict, status int, added, total time.Duration) {
	o.http.Done(status, v, added, total)
}

func (o httpObserver) Bounded(bound string) { o.all.BoundReached("http_" + bound) }

// A tcpObserver writes what happens at a TCP gate into the metrics. They count verdicts, bytes and what found no
// upstream by themselves.
type tcpObserver struct {
	*traffic
	*console.TCPMetrics
	all *console.Metrics
}

var _ tcpgate.Observer = tcpObserver{}

func (o tcpObserver) Connections(delta int) {
	o.inFlight.Add(int64(delta))
	o.TCPMetrics.Connections(delta)
}

func (o tcpObserver) Waiting(delta int) {
	o.traffic.Waiting(delta)
	o.TCPMetrics.Waiting(delta)
}

func (o tcpObserver) Bounded(bound string) { o.all.BoundReached("tcp_" + bound) }

// An apiObserver writes what happens at the decision API into the metrics.
type apiObserver struct {
	*traffic
	*console.Metrics
}

var _ apigate.Observer = apiObserver{}

func (o apiObserver) Decided(policy string, v weir.Verdict) {
	o.judged[v].Add(1)
	o.Count("weir_api_decisions_total", 1, policy, v.String())
}

func (o apiObserver) Holds(delta int) {
	o.inFlight.Add(int64(delta))
	o.Move("weir_api_holds", delta)
}

func (o apiObserver) Expired() { o.Count("weir_api_expired_holds_total", 1) }

func (o apiObserver) Bounded(bound string) { o.BoundReached("api_" + bound) }

// An authObserver writes what happens at a gate for forward-auth into the metrics.
type authObserver struct {
	*traffic
	all  *console.Metrics
	gate string
}

var _ authgate.Observer = authObserver{}

func (o authObserver) Decided(v weir.Verdict, _ time.Duration) {
	o.judged[v].Add(1)
	o.all.Count("weir_auth_decisions_total", 1, o.gate, v.String())
}

func (o authObserver) Bounded(bound string) { o.all.BoundReached("auth_" + bound) }

// A serversObserver is told how the servers behind an HTTP gate do.
type serversObserver struct {
	app        *App
	gate       string
	unresolved *logs.Line
}

var _ upstream.Observer = serversObserver{}

func (o serversObserver) Failed(server, why string) {
	o.app.metrics.Count("weir_http_upstream_failures_total", 1, o.gate, server, why)
}

func (o serversObserver) Retried(server string) {
	o.app.metrics.Count("weir_http_upstream_retries_total", 1, o.gate, server)
}

func (o serversObserver) Turned(server string, well bool) {
	log := o.app.opts.Log.With("gate", o.gate, "server", server)
	if well {
		log.Info("a server is healthy again")
	} else {
		log.Warn("a server is unhealthy and gets no requests for a while")
	}
}

func (o serversObserver) Resolved(server string, addresses int, err error) {
	o.app.metrics.Set("weir_http_upstream_addresses", addresses, o.gate, server)
	if err == nil {
		return
	}
	o.Failed(server, upstream.FailResolve)
	if _, ok := o.unresolved.Now(o.app.clock.Now().Sub(o.app.started)); ok {
		o.app.opts.Log.Warn("the name of a server cannot be looked up; the addresses that are known stay", "gate", o.gate,
			"server", server, "addresses", addresses, "error", err)
	}
}

func (o serversObserver) Left(server string) {
	o.app.metrics.UpstreamLeft(o.gate, server)
	o.app.opts.Log.Info("a server is no more: its name does not have that address any longer", "gate", o.gate,
		"server", server)
}

func (o serversObserver) Bounded(bound string) { o.app.metrics.BoundReached("http_" + bound) }

// boundLog is counted for each line of the log that there was no room for.
const boundLog = "log_lines"

// boundSettings is counted for each setting that there was no room for.
const boundSettings = "settings"

// declareBounds makes the series of every bound.
func declareBounds(m *console.Metrics) {
	m.DeclareBound(boundLog)
	m.DeclareBound(boundAccess)
	m.DeclareBound(boundSettings)
	m.DeclareBound(boundLogIns)
	m.DeclareBound(boundPastUsers)
	declare := func(kind string, names []string) {
		for _, name := range names {
			m.DeclareBound(kind + "_" + name)
		}
	}
	declare("spool", spool.BoundNames[:])
	declare("http", upstream.BoundNames[:])
	for _, kind := range gateKinds() {
		declare(kind.name, kind.bounds)
	}
}

// httpEnv is what an HTTP gate gets of its surroundings.
func (a *App) httpEnv(o httpgate.Options, next *generation, of *gate) httpgate.Env {
	return httpgate.Env{
		Env: a.envOf(o.Listen), Access: next.access.ready(), Tracer: next.tracer,
		Observer: httpObserver{of.seen, a.metrics.HTTP(of.label), a.metrics},
		Offend:   a.offend, Secrets: a.secrets, Scripts: stamp.Scripts(), Data: next.cfg.Data, Proofs: &a.proofs,
		Upstream: serversObserver{a, of.label, new(logs.Line)},
	}
}
