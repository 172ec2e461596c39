package console

import "github.com/prometheus/client_golang/prometheus"

// logIns are the results of logins, in the words of the gate.
var logIns = [...]string{"ok", "wrong", "busy", "guessing", "stopped", "disabled", "failed"}

// SMTPMetrics are the series of one SMTP gate and of the mail that it accepts. Safe for concurrent use.
type SMTPMetrics struct {
	sessions                                prometheus.Gauge
	passed, delayed, held, withheld, pooled prometheus.Counter
	delivered, deferred, bounced, ambiguous prometheus.Counter
	expired, reminders                      prometheus.Counter
	logins, bounded, refused                *prometheus.CounterVec
}

// SMTP returns the series of one gate, looked up once so that counting a message does not.
func (m *Metrics) SMTP(gate string) *SMTPMetrics {
	accepted := func(result string) prometheus.Counter { return m.counter("weir_mail_accepted_total", gate, result) }
	s := &SMTPMetrics{
		sessions: m.gauge("weir_smtp_sessions", gate),
		passed:   accepted("passed"), delayed: accepted("delayed"), held: accepted("held"),
		withheld: accepted("withheld"), pooled: accepted("pooled"),
		delivered: m.counter("weir_mail_delivered_total", gate),
		deferred:  m.counter("weir_mail_deferred_total", gate),
		bounced:   m.counter("weir_mail_bounced_total", gate),
		ambiguous: m.counter("weir_mail_ambiguous_total", gate),
		expired:   m.counter("weir_mail_expired_total", gate),
		reminders: m.counter("weir_mail_reminders_total", gate),
		logins:    m.ofGate("weir_smtp_logins_total", gate),
		bounded:   m.ofGate("weir_smtp_bound_reached_total", gate),
		refused:   m.ofGate("weir_mail_refused_total", gate),
	}
	for _, result := range logIns {
		s.logins.WithLabelValues(result)
	}
	return s
}

// ofGate returns the counters of a gate that have one more label.
func (m *Metrics) ofGate(name, gate string) *prometheus.CounterVec {
	return m.counters[name].MustCurryWith(prometheus.Labels{"gate": gate})
}

// ForgetSMTP drops the series of an SMTP gate that is no more.
func (m *Metrics) ForgetSMTP(gate string) {
	m.forget("smtp", gate)
	m.forget("mail", gate)
}

// Sessions counts sessions that begin (1) or end (-1).
func (s *SMTPMetrics) Sessions(delta int) { s.sessions.Add(float64(delta)) }

// LogIn counts a login. The result must come from a small set.
func (s *SMTPMetrics) LogIn(result string) { s.logins.WithLabelValues(result).Inc() }

// DeclareBound makes the series of a bound that has not been reached yet.
func (s *SMTPMetrics) DeclareBound(bound string) { s.bounded.WithLabelValues(bound) }

// Bounded counts something that was turned away at a bound. The name must come from a small set.
func (s *SMTPMetrics) Bounded(bound string) { s.bounded.WithLabelValues(bound).Inc() }

// Accepted counts the recipients of an accepted message.
func (s *SMTPMetrics) Accepted(passed, delayed, held, withheld, pooled int) {
	s.passed.Add(float64(passed))
	s.delayed.Add(float64(delayed))
	s.held.Add(float64(held))
	s.withheld.Add(float64(withheld))
	s.pooled.Add(float64(pooled))
}

// Refused counts recipients that were refused, for now or permanently. The reason must come from a small set.
func (s *SMTPMetrics) Refused(reason string, recipients int) {
	s.refused.WithLabelValues(reason).Add(float64(recipients))
}

// Delivered counts recipients that the next hop has accepted.
func (s *SMTPMetrics) Delivered(recipients int) { s.delivered.Add(float64(recipients)) }

// Deferred counts delivery attempts that will be repeated.
func (s *SMTPMetrics) Deferred(recipients int) { s.deferred.Add(float64(recipients)) }

// Bounced counts recipients that were given up.
func (s *SMTPMetrics) Bounced(recipients int) { s.bounced.Add(float64(recipients)) }

// Expired counts recipients whose message nobody released, and which were given up.
func (s *SMTPMetrics) Expired(recipients int) { s.expired.Add(float64(recipients)) }

// Reminded counts a reminder that mail is still held.
func (s *SMTPMetrics) Reminded() { s.reminders.Inc() }

// Ambiguous counts recipients that may or may not have been reached.
func (s *SMTPMetrics) Ambiguous(recipients int) { s.ambiguous.Add(float64(recipients)) }

// DeclareStops makes the series of a mail throttle before it stops anybody: an increase from no series is none.
func (m *Metrics) DeclareStops(throttle string) {
	m.counter("weir_mail_stops_total", throttle)
	m.counter("weir_mail_untold_total", throttle)
}

// DeclareFlags does the same for a reach throttle.
func (m *Metrics) DeclareFlags(throttle string) { m.counter("weir_reach_flags_total", throttle) }

// UserFlagged counts a user that a reach throttle flagged.
func (m *Metrics) UserFlagged(throttle string) { m.counter("weir_reach_flags_total", throttle).Inc() }

// UserStopped counts a user that a throttle stopped.
func (m *Metrics) UserStopped(throttle string) { m.counter("weir_mail_stops_total", throttle).Inc() }

// UserUntold counts a user who was stopped and has no contact.
func (m *Metrics) UserUntold(throttle string) { m.counter("weir_mail_untold_total", throttle).Inc() }

// PolicyMetrics are the series of one policy service. Safe for concurrent use.
type PolicyMetrics struct {
	open  prometheus.Gauge
	asked *prometheus.CounterVec
}

// Policy returns the series of one policy service.
func (m *Metrics) Policy(gate string) *PolicyMetrics {
	return &PolicyMetrics{open: m.gauge("weir_postfix_connections", gate),
		asked: m.ofGate("weir_postfix_requests_total", gate)}
}

// ForgetPolicyService drops the series of a policy service that is no more.
func (m *Metrics) ForgetPolicyService(gate string) { m.forget("postfix", gate) }

// Connections counts connections that begin (1) or end (-1).
func (p *PolicyMetrics) Connections(delta int) { p.open.Add(float64(delta)) }

// Answered counts an answer by its action, the first word of it: DUNNO, DEFER, REJECT, HOLD, FILTER.
func (p *PolicyMetrics) Answered(action string) { p.asked.WithLabelValues(action).Inc() }
