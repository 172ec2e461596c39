package app

import (
	"sync/atomic"
	"time"

	"weir"
	"weir/console"
	"weir/gate/postfixgate"
	"weir/gate/smtpgate"
	"weir/mail/spool"
	"weir/policy"
	"weir/throttle/reach"
)

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
