package app

import (
	"sync/atomic"
	"time"

	"weir"
	"weir/console"
	"weir/gate/apigate"
	"weir/gate/authgate"
	"weir/gate/httpgate"
	"weir/gate/postfixgate"
	"weir/gate/smtpgate"
	"weir/gate/tcpgate"
	"weir/internal/logs"
	"weir/mail/spool"
	"weir/policy"
	"weir/throttle/reach"
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

// A mailObserver writes what becomes of mail into the metrics, and into the counts of the mail throttles.
type mailObserver struct {
	spool.Nobody                           // of what is only in the audit log
	app                                    *App
	accepted, delivered, deferred, bounced atomic.Uint64
}

var _ spool.Observer = (*mailObserver)(nil)

// logIns are the results of logins, in the words of the gate.
var logIns = [...]string{"ok", "wrong", "busy", "guessing", "stopped", "disabled", "failed"}

// declareMail makes the series of a new gate for mail.
func (a *App) declareMail(gate string) {
	a.metrics.Move("weir_smtp_sessions", 0, gate)
	for _, result := range []string{"passed", "delayed", "held", "withheld", "pooled"} {
		a.metrics.Count("weir_mail_accepted_total", 0, gate, result)
	}
	for _, became := range []string{"delivered", "deferred", "bounced", "ambiguous", "expired", "reminders"} {
		a.metrics.Count("weir_mail_"+became+"_total", 0, gate)
	}
	for _, result := range logIns {
		a.metrics.Count("weir_smtp_logins_total", 0, gate, result)
	}
	for _, bound := range smtpgate.BoundNames {
		a.metrics.Count("weir_smtp_bound_reached_total", 0, gate, bound)
	}
}

// count counts what became of mail of a gate, by the gate's name. Gates that are gone have no series.
func (o *mailObserver) count(became, name string, n int, labels ...string) {
	for _, gt := range o.app.current.Load().gates {
		if _, ok := gt.state.(*smtpState); ok && gt.post.Name == name {
			o.app.metrics.Count("weir_mail_"+became+"_total", n, append([]string{gt.listen}, labels...)...)
		}
	}
}

func (o *mailObserver) Accepted(gate, user string, r spool.Receipt) {
	o.accepted.Add(uint64(r.Passed + r.Delayed + r.Held + r.Withheld + r.Pooled))
	o.count("accepted", gate, r.Passed, "passed")
	o.count("accepted", gate, r.Delayed, "delayed")
	o.count("accepted", gate, r.Held, "held")
	o.count("accepted", gate, r.Withheld, "withheld")
	o.count("accepted", gate, r.Pooled, "pooled")
	if seen := o.app.current.Load().traffic(gate); seen != nil {
		seen.judged[weir.Admit].Add(uint64(r.Passed))
		seen.delayed.Add(uint64(r.Delayed + r.Held + r.Withheld + r.Pooled))
		seen.Would.Add(uint64(r.WouldWait + r.WouldRefuse))
	}
	o.app.users.sent(user, r.Delayed+r.Held+r.Withheld+r.WouldWait+r.WouldRefuse > 0)
	if link, ok := o.app.current.Load().mailCounts(gate); ok {
		o.held(link, user, r.Delayed+r.Held, false)
		o.held(link, user, r.WouldWait+r.WouldRefuse, true)
		if r.Shadow {
			link.Counts.Shadowed[weir.Admit].Add(uint64(r.Passed - min(r.Passed, r.WouldWait+r.WouldRefuse)))
			link.Counts.Shadowed[weir.Wait].Add(uint64(r.WouldWait))
			link.Counts.Shadowed[weir.Refuse].Add(uint64(r.WouldRefuse))
			return
		}
		link.Counts.Verdicts[weir.Admit].Add(uint64(r.Passed))
		link.Counts.Verdicts[weir.Wait].Add(uint64(r.Delayed + r.Held))
	}
}

// held tells who watches a mail throttle that so many recipients of a user's mail were held back, or would have been.
func (o *mailObserver) held(link *policy.Link, user string, recipients int, shadow bool) {
	link.Watch.Held(o.app.clock.Now(), policy.Party{Kind: policy.User, Name: user}, recipients, shadow)
}

// refused is held for recipients that were refused.
func (o *mailObserver) refused(link *policy.Link, gate, user, rule string, why weir.Reason, recipients int,
	shadow bool) {
	if recipients <= 0 {
		return
	}
	o.held(link, user, recipients, shadow)
	if seen := o.app.current.Load().traffic(gate); seen != nil {
		gate = seen.Gate
	}
	link.Watch.Refused(&policy.Refusal{Time: o.app.clock.Now(), Gate: gate, Verdict: weir.Refuse, Reason: why,
		Figure: weir.Figure{By: link.Name, Rule: rule, Unit: "recipients"}, Shadow: shadow,
		Who: policy.Party{Kind: policy.User, Name: user}})
}

func (o *mailObserver) Decided(gate, user string, v spool.Verdict, n int) {
	o.app.users.sent(user, !v.Pass)
	link, ok := o.app.current.Load().mailCounts(gate)
	if !ok {
		return
	}
	counts, shadow := &link.Counts.Verdicts, link.Shadow.Load()
	if shadow {
		counts = &link.Counts.Shadowed
	}
	switch {
	case v.Pass:
		counts[weir.Admit].Add(uint64(n))
	case v.Refused:
		counts[weir.Refuse].Add(uint64(n))
		if v.Why == nil { // else another throttle has refused it
			o.refused(link, gate, user, "stop", weir.OverLimit, n, shadow)
		}
	default:
		o.held(link, user, v.Delayed, shadow)
		counts[weir.Wait].Add(uint64(v.Delayed))
		counts[weir.Admit].Add(uint64(n - min(n, v.Delayed)))
	}
}

func (o *mailObserver) Delivered(gate string, n int, _ time.Duration) {
	o.delivered.Add(uint64(n))
	o.count("delivered", gate, n)
}

func (o *mailObserver) Deferred(gate string, n int) {
	o.deferred.Add(uint64(n))
	o.count("deferred", gate, n)
}

func (o *mailObserver) Failed(gate string, n int) {
	o.bounced.Add(uint64(n))
	o.count("bounced", gate, n)
}

func (o *mailObserver) Ambiguous(gate string, n int) {
	o.count("ambiguous", gate, n)
}

func (o *mailObserver) Stopped(throttle string) {
	o.app.metrics.Count("weir_mail_stops_total", 1, throttle)
}

func (o *mailObserver) Untold(throttle string) {
	o.app.metrics.Count("weir_mail_untold_total", 1, throttle)
}

func (o *mailObserver) Flagged(throttle string) {
	o.app.metrics.Count("weir_reach_flags_total", 1, throttle)
}

func (o *mailObserver) Reached(throttle, user string, v reach.Verdict, shadow bool) {
	t := o.app.current.Load().throttle(throttle)
	if t == nil {
		return
	}
	count := func(verdict weir.Verdict, recipients int) {
		counts := t.link.Counts.Of(v.Window.String(), verdict)
		if shadow {
			counts.Shadowed[verdict].Add(uint64(recipients))
		} else {
			counts.Verdicts[verdict].Add(uint64(recipients))
		}
	}
	o.app.users.sent(user, v.Held+v.Refused > 0)
	count(weir.Admit, max(0, v.New+v.Known-v.Held-v.Refused))
	count(weir.Wait, v.Held)
	count(weir.Refuse, v.Refused)
	o.held(t.link, user, v.Held, shadow)
	o.refused(t.link, "", user, v.Window.String(), weir.Flagged, v.Refused, shadow)
}

func (o *mailObserver) Expired(gate string, n int) {
	o.count("expired", gate, n)
}

func (o *mailObserver) Reminded(gate string) {
	o.count("reminders", gate, 1)
}

func (o *mailObserver) Released(int) {}
func (o *mailObserver) Deleted(int)  {}

func (o *mailObserver) Bounded(bound string) { o.app.metrics.BoundReached("spool_" + bound) }

// A smtpObserver writes what happens at a gate for mail into the metrics.
type smtpObserver struct {
	*traffic
	app        *App
	gate, name string // in the metrics, and for the spool
}

var _ smtpgate.Observer = smtpObserver{}

func (o smtpObserver) Sessions(delta int) {
	o.inFlight.Add(int64(delta))
	o.app.metrics.Move("weir_smtp_sessions", delta, o.gate)
}

func (o smtpObserver) LogIn(how string) {
	o.app.metrics.Count("weir_smtp_logins_total", 1, o.gate, how)
}

// Mail counts what was not taken over; what was is counted by the spool.
func (o smtpObserver) Mail(how, user string, _ int64, recipients int) {
	if how == smtpgate.MailAccepted || how == smtpgate.MailCommand {
		return
	}
	o.refuse(how, user, recipients)
}

func (o smtpObserver) Refused(how, user string) { o.refuse(how, user, 1) }

func (o smtpObserver) refuse(how, user string, recipients int) {
	o.app.metrics.Count("weir_mail_refused_total", recipients, o.gate, how)
	o.judged[weir.Refuse].Add(uint64(recipients))
	if how != smtpgate.MailStopped {
		return
	}
	if link, ok := o.app.current.Load().mailCounts(o.name); ok {
		link.Counts.Verdicts[weir.Refuse].Add(uint64(recipients))
		o.app.post.seen.refused(link, o.name, user, "stop", weir.OverLimit, recipients, false)
	}
}

func (o smtpObserver) Bounded(bound string) {
	o.app.metrics.Count("weir_smtp_bound_reached_total", 1, o.gate, bound)
}

// A postfixObserver writes what happens at a policy service into the metrics.
type postfixObserver struct {
	*traffic
	all  *console.Metrics
	gate string
}

var _ postfixgate.Observer = postfixObserver{}

func (o postfixObserver) Connections(delta int) {
	o.inFlight.Add(int64(delta))
	o.all.Move("weir_postfix_connections", delta, o.gate)
}

func (o postfixObserver) Answered(action postfixgate.Action) {
	o.judged[postfixVerdict(action)].Add(1)
	o.answered(string(action))
}

// postfixVerdict is what an action means for the message.
func postfixVerdict(a postfixgate.Action) weir.Verdict {
	switch a {
	case postfixgate.ActionFilter, postfixgate.ActionHold:
		return weir.Wait
	case postfixgate.ActionDefer, postfixgate.ActionDoubt, postfixgate.ActionReject:
		return weir.Refuse
	}
	return weir.Admit
}

func (o postfixObserver) Failed() { o.answered("failed") }

func (o postfixObserver) answered(action string) {
	o.all.Count("weir_postfix_requests_total", 1, o.gate, action)
}

func (o postfixObserver) Bounded(bound string) { o.all.BoundReached("postfix_" + bound) }
