package app

import (
	"sync/atomic"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/gate/apigate"
	"weir/gate/authgate"
	"weir/gate/httpgate"
	"weir/gate/postfixgate"
	"weir/gate/rlsgate"
	"weir/gate/tcpgate"
	"weir/mail/spool"
	"weir/throttle/stamp"
	"weir/upstream"
)

// An observer writes what happens at one gate into the metrics.
type observer struct {
	all      *console.Metrics
	http     *console.HTTPMetrics // one of these
	tcp      *console.TCPMetrics
	smtp     *console.SMTPMetrics
	policy   *console.PolicyMetrics
	waiting  atomic.Int64
	inFlight atomic.Int64
}

var _ httpgate.Observer = (*observer)(nil)

// Waiting counts requests that are held back.
func (o *observer) Waiting(delta int) {
	o.waiting.Add(int64(delta))
	o.http.Waiting(delta)
}

// InFlight counts requests that are under way, those that wait included.
func (o *observer) InFlight(delta int) {
	o.inFlight.Add(int64(delta))
	o.http.InFlight(delta)
}

// load is how many requests are under way, and how many of those wait.
func (o *observer) load() (inFlight, waiting int64) { return o.inFlight.Load(), o.waiting.Load() }

// Served counts a request that was answered.
func (o *observer) Served(v weir.Verdict, status int, added, total time.Duration) {
	o.http.Done(status, v, added, total)
}

// Bounded counts what was turned away at a bound.
func (o *observer) Bounded(bound string) { o.all.BoundReached("http_" + bound) }

// A tcpObserver is an observer as a TCP gate knows it.
type tcpObserver struct{ *observer }

var _ tcpgate.Observer = tcpObserver{}

// Connections counts connections that are open.
func (o tcpObserver) Connections(delta int) {
	o.inFlight.Add(int64(delta))
	o.tcp.Connections(delta)
}

// Waiting counts connections that are held back.
func (o tcpObserver) Waiting(delta int) {
	o.waiting.Add(int64(delta))
	o.tcp.Waiting(delta)
}

// Judged counts verdicts on connections or packets.
func (o tcpObserver) Judged(v weir.Verdict) { o.tcp.Judged(v) }

// Passed counts bytes.
func (o tcpObserver) Passed(in, out int64) { o.tcp.Passed(in, out) }

// Unreached counts what found no upstream.
func (o tcpObserver) Unreached() { o.tcp.Unreached() }

// Bounded counts what was turned away at a bound.
func (o tcpObserver) Bounded(bound string) { o.all.BoundReached("tcp_" + bound) }

// An apiObserver is an observer as the decision API knows it.
type apiObserver struct{ *observer }

var _ apigate.Observer = apiObserver{}

// Decided counts an answer.
func (o apiObserver) Decided(policy string, v weir.Verdict) { o.all.Decided(policy, v) }

// Holds counts holds that are open.
func (o apiObserver) Holds(delta int) {
	o.inFlight.Add(int64(delta))
	o.all.Holds(delta)
}

// Expired counts a hold that nobody settled.
func (o apiObserver) Expired() { o.all.HoldExpired() }

// Bounded counts what was turned away at a bound.
func (o apiObserver) Bounded(bound string) { o.all.BoundReached("api_" + bound) }

// An authObserver is an observer as a gate for forward-auth knows it.
type authObserver struct {
	*observer
	gate string
}

var _ authgate.Observer = authObserver{}

// Decided counts an answer.
func (o authObserver) Decided(v weir.Verdict, _ time.Duration) { o.all.Answered(o.gate, v) }

// Waiting counts answers that are held back.
func (o authObserver) Waiting(delta int) { o.waiting.Add(int64(delta)) }

// Bounded counts what was turned away at a bound.
func (o authObserver) Bounded(bound string) { o.all.BoundReached("auth_" + bound) }

// A serversObserver is told how the servers behind an HTTP gate do.
type serversObserver struct {
	app  *App
	gate string
}

var _ upstream.Observer = serversObserver{}

// Failed counts a request that was not answered.
func (o serversObserver) Failed(server, why string) {
	o.app.metrics.UpstreamFailed(o.gate, server, why)
}

// Retried counts a request that another server did not answer.
func (o serversObserver) Retried(server string) { o.app.metrics.UpstreamRetried(o.gate, server) }

// Turned logs that a server is well again, or not any more.
func (o serversObserver) Turned(server string, well bool) {
	o.app.metrics.UpstreamTurned(o.gate, server, well)
	log := o.app.opts.Log.With("gate", o.gate, "server", server)
	if well {
		log.Info("a server is well again")
	} else {
		log.Warn("a server fails, and is left alone for a while")
	}
}

// boundLog is counted for each line of the log that there was no room for.
const boundLog = "log_lines"

// declareBounds makes the series of every bound.
func declareBounds(m *console.Metrics) {
	m.DeclareBound(boundLog)
	for kind, names := range map[string][]string{
		"http": httpgate.BoundNames[:], "tcp": tcpgate.BoundNames[:], "api": apigate.BoundNames[:],
		"postfix": postfixgate.BoundNames[:],
		"auth":    authgate.BoundNames[:], "rls": rlsgate.BoundNames[:],
		"spool": spool.BoundNames[:],
	} {
		for _, name := range names {
			m.DeclareBound(kind + "_" + name)
		}
	}
}

// gateEnv is what a gate gets of its surroundings.
func (a *App) gateEnv(o httpgate.Options, c *config.Config, seen *observer) httpgate.Env {
	return httpgate.Env{
		Env: a.envOf(o.Listen), Access: httpgate.AccessLog(c.Log.Access),
		Observer: seen,
		Offend:   a.offend, Secrets: a.secrets, Scripts: stamp.Scripts(), Data: c.Data, Challenges: a.challenges,
		Upstream: serversObserver{a, o.Listen},
	}
}
