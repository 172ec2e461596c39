package app

import (
	"sync/atomic"
	"time"

	"weir"
	"weir/console"
	"weir/gate/postfixgate"
	"weir/gate/smtpgate"
	"weir/mail/spool"
	"weir/throttle/reach"
)

// A mailObserver writes what becomes of mail into the metrics, and into the counts of the mail throttles.
type mailObserver struct {
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

// Accepted counts the recipients of a mail that was taken over.
func (o *mailObserver) Accepted(gate string, r spool.Receipt) {
	o.accepted.Add(uint64(r.Passed + r.Delayed + r.Held + r.Withheld + r.Pooled))
	if seen := o.of(gate); seen != nil {
		seen.Accepted(r.Passed, r.Delayed, r.Held, r.Withheld, r.Pooled)
	}
	if link, ok := o.app.current.Load().mailCounts(gate); ok {
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

// Decided counts what was said about mail that another server keeps.
func (o *mailObserver) Decided(gate string, v spool.Verdict, n int) {
	link, ok := o.app.current.Load().mailCounts(gate)
	if !ok {
		return
	}
	counts := &link.Counts.Verdicts
	if link.Shadow.Load() {
		counts = &link.Counts.Shadowed
	}
	switch {
	case v.Pass:
		counts[weir.Admit].Add(uint64(n))
	case v.Refused:
		counts[weir.Refuse].Add(uint64(n))
	default:
		counts[weir.Wait].Add(uint64(v.Delayed))
		counts[weir.Admit].Add(uint64(n - min(n, v.Delayed)))
	}
}

// Delivered counts recipients whom the next hop has taken over.
func (o *mailObserver) Delivered(gate string, n int, _ time.Duration) {
	o.delivered.Add(uint64(n))
	if seen := o.of(gate); seen != nil {
		seen.Delivered(n)
	}
}

// Deferred counts tries that are to be made again.
func (o *mailObserver) Deferred(gate string, n int) {
	o.deferred.Add(uint64(n))
	if seen := o.of(gate); seen != nil {
		seen.Deferred(n)
	}
}

// Failed counts recipients that were given up.
func (o *mailObserver) Failed(gate string, n int) {
	o.bounced.Add(uint64(n))
	if seen := o.of(gate); seen != nil {
		seen.Bounced(n)
	}
}

// Bounced is told of notifications; the recipients they are about are counted by Failed.
func (o *mailObserver) Bounced(string) {}

// Ambiguous counts recipients of whom nobody knows whether they were reached.
func (o *mailObserver) Ambiguous(gate string, n int) {
	if seen := o.of(gate); seen != nil {
		seen.Ambiguous(n)
	}
}

// Stopped counts users who are stopped.
func (o *mailObserver) Stopped(throttle string) { o.app.metrics.UserStopped(throttle) }

// Flagged counts users who are flagged.
func (o *mailObserver) Flagged(throttle string) { o.app.metrics.UserFlagged(throttle) }

// Reached counts the recipients of a mail that a reach throttle has judged.
func (o *mailObserver) Reached(throttle string, v reach.Verdict, shadow bool) {
	t := o.app.current.Load().throttle(throttle)
	if t == nil {
		return
	}
	counts := &t.link.Counts.Verdicts
	if shadow {
		counts = &t.link.Counts.Shadowed
	}
	counts[weir.Admit].Add(uint64(max(0, v.New+v.Known-v.Held-v.Refused)))
	counts[weir.Wait].Add(uint64(v.Held))
	counts[weir.Refuse].Add(uint64(v.Refused))
}

// Resumed, Released and Deleted are in the audit log.
func (o *mailObserver) Resumed(string) {}
func (o *mailObserver) Released(int)   {}
func (o *mailObserver) Deleted(int)    {}

// Bounded counts what did not fit into memory.
func (o *mailObserver) Bounded(bound string) { o.app.metrics.BoundReached("spool_" + bound) }

// A smtpObserver writes what happens at a gate for mail into the metrics.
type smtpObserver struct {
	*traffic
	smtp *console.SMTPMetrics
	app  *App
	name string
}

var _ smtpgate.Observer = smtpObserver{}

// Sessions counts sessions that are open.
func (o smtpObserver) Sessions(delta int) {
	o.inFlight.Add(int64(delta))
	o.smtp.Sessions(delta)
}

// LogIn counts log-ins.
func (o smtpObserver) LogIn(how string) { o.smtp.LogIn(how) }

// Mail counts what was not taken over; what was is counted by the spool.
func (o smtpObserver) Mail(how string, _ int64, recipients int) {
	if how == smtpgate.MailAccepted || how == smtpgate.MailCommand {
		return
	}
	o.smtp.Refused(how, recipients)
	o.judged(how, recipients)
}

// Refused counts a sender or a recipient that was refused.
func (o smtpObserver) Refused(how string) {
	o.smtp.Refused(how, 1)
	o.judged(how, 1)
}

// judged counts what the mail throttle refused.
func (o smtpObserver) judged(how string, recipients int) {
	if how != smtpgate.MailStopped {
		return
	}
	if link, ok := o.app.current.Load().mailCounts(o.name); ok {
		link.Counts.Verdicts[weir.Refuse].Add(uint64(recipients))
	}
}

// Bounded counts what was turned away at a bound.
func (o smtpObserver) Bounded(bound string) { o.smtp.Bounded(bound) }

// A postfixObserver writes what happens at a policy service into the metrics.
type postfixObserver struct {
	*traffic
	policy *console.PolicyMetrics
	all    *console.Metrics
}

var _ postfixgate.Observer = postfixObserver{}

// Connections counts connections that are open.
func (o postfixObserver) Connections(delta int) {
	o.inFlight.Add(int64(delta))
	o.policy.Connections(delta)
}

// Answered counts an answer.
func (o postfixObserver) Answered(action postfixgate.Action) { o.policy.Answered(string(action)) }

// Failed counts a request that could not be judged.
func (o postfixObserver) Failed() { o.policy.Answered("failed") }

// Bounded counts what was turned away at a bound.
func (o postfixObserver) Bounded(bound string) { o.all.BoundReached("postfix_" + bound) }
