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

// of returns the metrics of a gate, or nil for gates that are gone.
func (o *mailObserver) of(name string) *console.SMTPMetrics {
	for _, gt := range o.app.current.Load().gates {
		if s, ok := gt.state.(*smtpState); ok && gt.post.Name == name {
			return s.metrics
		}
	}
	return nil
}

func (o *mailObserver) Accepted(gate, user string, r spool.Receipt) {
	o.accepted.Add(uint64(r.Passed + r.Delayed + r.Held + r.Withheld + r.Pooled))
	if seen := o.of(gate); seen != nil {
		seen.Accepted(r.Passed, r.Delayed, r.Held, r.Withheld, r.Pooled)
	}
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
	if seen := o.of(gate); seen != nil {
		seen.Delivered(n)
	}
}

func (o *mailObserver) Deferred(gate string, n int) {
	o.deferred.Add(uint64(n))
	if seen := o.of(gate); seen != nil {
		seen.Deferred(n)
	}
}

func (o *mailObserver) Failed(gate string, n int) {
	o.bounced.Add(uint64(n))
	if seen := o.of(gate); seen != nil {
		seen.Bounced(n)
	}
}

func (o *mailObserver) Ambiguous(gate string, n int) {
	if seen := o.of(gate); seen != nil {
		seen.Ambiguous(n)
	}
}

func (o *mailObserver) Stopped(throttle string) { o.app.metrics.UserStopped(throttle) }

func (o *mailObserver) Untold(throttle string) { o.app.metrics.UserUntold(throttle) }

func (o *mailObserver) Flagged(throttle string) { o.app.metrics.UserFlagged(throttle) }

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
	if seen := o.of(gate); seen != nil {
		seen.Expired(n)
	}
}

func (o *mailObserver) Reminded(gate string) {
	if seen := o.of(gate); seen != nil {
		seen.Reminded()
	}
}

func (o *mailObserver) Released(int) {}
func (o *mailObserver) Deleted(int)  {}

func (o *mailObserver) Bounded(bound string) { o.app.metrics.BoundReached("spool_" + bound) }

// A smtpObserver writes what happens at a gate for mail into the metrics.
type smtpObserver struct {
	*traffic
	smtp *console.SMTPMetrics
	app  *App
	name string
}

var _ smtpgate.Observer = smtpObserver{}

func (o smtpObserver) Sessions(delta int) {
	o.inFlight.Add(int64(delta))
	o.smtp.Sessions(delta)
}

func (o smtpObserver) LogIn(how string) { o.smtp.LogIn(how) }

// Mail counts what was not taken over; what was is counted by the spool.
func (o smtpObserver) Mail(how, user string, _ int64, recipients int) {
	if how == smtpgate.MailAccepted || how == smtpgate.MailCommand {
		return
	}
	o.refuse(how, user, recipients)
}

func (o smtpObserver) Refused(how, user string) { o.refuse(how, user, 1) }

func (o smtpObserver) refuse(how, user string, recipients int) {
	o.smtp.Refused(how, recipients)
	o.judged[weir.Refuse].Add(uint64(recipients))
	if how != smtpgate.MailStopped {
		return
	}
	if link, ok := o.app.current.Load().mailCounts(o.name); ok {
		link.Counts.Verdicts[weir.Refuse].Add(uint64(recipients))
		o.app.post.seen.refused(link, o.name, user, "stop", weir.OverLimit, recipients, false)
	}
}

func (o smtpObserver) Bounded(bound string) { o.smtp.Bounded(bound) }

// A postfixObserver writes what happens at a policy service into the metrics.
type postfixObserver struct {
	*traffic
	policy *console.PolicyMetrics
	all    *console.Metrics
}

var _ postfixgate.Observer = postfixObserver{}

func (o postfixObserver) Connections(delta int) {
	o.inFlight.Add(int64(delta))
	o.policy.Connections(delta)
}

func (o postfixObserver) Answered(action postfixgate.Action) {
	o.judged[postfixVerdict(action)].Add(1)
	o.policy.Answered(string(action))
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

func (o postfixObserver) Failed() { o.policy.Answered("failed") }

func (o postfixObserver) Bounded(bound string) { o.all.BoundReached("postfix_" + bound) }
