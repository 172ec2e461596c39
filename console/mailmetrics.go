package console

import "github.com/prometheus/client_golang/prometheus"

// mailMetrics are the series of mail gates.
type mailMetrics struct {
	sessions  *prometheus.GaugeVec
	logins    *prometheus.CounterVec
	bounded   *prometheus.CounterVec
	accepted  *prometheus.CounterVec
	refused   *prometheus.CounterVec
	delivered *prometheus.CounterVec
	deferred  *prometheus.CounterVec
	bounced   *prometheus.CounterVec
	ambiguous *prometheus.CounterVec
	stops     *prometheus.CounterVec
	flags     *prometheus.CounterVec
	asking    *prometheus.GaugeVec
	asked     *prometheus.CounterVec
	pages     *prometheus.CounterVec
}

func newMailMetrics(s series) mailMetrics {
	return mailMetrics{
		sessions: s.gauge("weir_smtp_sessions", "SMTP sessions open now.", "gate"),
		logins:   s.counter("weir_smtp_logins_total", "Log-ins by result.", "gate", "result"),
		bounded: s.counter("weir_smtp_bounded_total", "What an SMTP gate turned away because a bound was reached.",
			"gate", "bound"),
		accepted: s.counter("weir_mail_accepted_total",
			"Recipients of mail that was taken over, by what became of them: passed, delayed, held, withheld, pooled.",
			"gate", "result"),
		refused: s.counter("weir_mail_refused_total", "Recipients that were refused, or put off, by reason.", "gate",
			"reason"),
		delivered: s.counter("weir_mail_delivered_total", "Recipients whom the next hop has taken over.", "gate"),
		deferred: s.counter("weir_mail_deferred_total", "Tries to deliver to a recipient that are to be made again.",
			"gate"),
		bounced: s.counter("weir_mail_bounced_total", "Recipients given up, whose sender was told.", "gate"),
		ambiguous: s.counter("weir_mail_ambiguous_total",
			"Recipients of whom nobody knows whether the next hop has taken them over.", "gate"),
		stops:  s.counter("weir_mail_stops_total", "How often a user was stopped, by throttle.", "throttle"),
		flags:  s.counter("weir_reach_flags_total", "How often a user was flagged, by throttle.", "throttle"),
		asking: s.gauge("weir_policy_connections", "Connections to a policy service open now.", "gate"),
		asked: s.counter("weir_policy_requests_total",
			"Questions to a policy service, by the action that was answered.", "gate", "action"),
		pages: s.counter("weir_selfservice_requests_total",
			"Requests for the pages of mail users: shown, done, refused, failed.", "result"),
	}
}

// logIns is what log-ins come to, in the words of the gate.
var logIns = [...]string{"right", "wrong", "busy", "guessing", "stopped", "disabled", "failed"}

// SMTPMetrics are the series of one SMTP gate, and of what its mail comes to. Safe for concurrent use.
type SMTPMetrics struct {
	sessions                                prometheus.Gauge
	passed, delayed, held, withheld, pooled prometheus.Counter
	delivered, deferred, bounced, ambiguous prometheus.Counter
	logins, bounded, refused                *prometheus.CounterVec
}

// SMTP returns the series of one gate, looked up once so that counting a mail does not.
func (m *Metrics) SMTP(gate string) *SMTPMetrics {
	of := prometheus.Labels{"gate": gate}
	s := &SMTPMetrics{
		sessions:  m.mail.sessions.With(of),
		passed:    m.mail.accepted.WithLabelValues(gate, "passed"),
		delayed:   m.mail.accepted.WithLabelValues(gate, "delayed"),
		held:      m.mail.accepted.WithLabelValues(gate, "held"),
		withheld:  m.mail.accepted.WithLabelValues(gate, "withheld"),
		pooled:    m.mail.accepted.WithLabelValues(gate, "pooled"),
		delivered: m.mail.delivered.With(of), deferred: m.mail.deferred.With(of), bounced: m.mail.bounced.With(of),
		ambiguous: m.mail.ambiguous.With(of),
		logins:    m.mail.logins.MustCurryWith(of), bounded: m.mail.bounded.MustCurryWith(of),
		refused: m.mail.refused.MustCurryWith(of),
	}
	for _, result := range logIns {
		s.logins.WithLabelValues(result)
	}
	return s
}

// ForgetSMTP drops the series of a gate that is no more.
func (m *Metrics) ForgetSMTP(gate string) {
	forget(gate, m.mail.sessions, m.mail.logins, m.mail.bounded, m.mail.accepted, m.mail.refused, m.mail.delivered,
		m.mail.deferred, m.mail.bounced, m.mail.ambiguous)
}

// Sessions counts sessions that begin (1) or end (-1).
func (s *SMTPMetrics) Sessions(delta int) { s.sessions.Add(float64(delta)) }

// LogIn counts a log-in. The result must come from a small set.
func (s *SMTPMetrics) LogIn(result string) { s.logins.WithLabelValues(result).Inc() }

// DeclareBound makes the series of a bound that has not been reached yet.
func (s *SMTPMetrics) DeclareBound(bound string) { s.bounded.WithLabelValues(bound) }

// Bounded counts something that was turned away at a bound. The name must come from a small set.
func (s *SMTPMetrics) Bounded(bound string) { s.bounded.WithLabelValues(bound).Inc() }

// Accepted counts the recipients of a mail that was taken over.
func (s *SMTPMetrics) Accepted(passed, delayed, held, withheld, pooled int) {
	s.passed.Add(float64(passed))
	s.delayed.Add(float64(delayed))
	s.held.Add(float64(held))
	s.withheld.Add(float64(withheld))
	s.pooled.Add(float64(pooled))
}

// Refused counts recipients that were refused or put off. The reason must come from a small set.
func (s *SMTPMetrics) Refused(reason string, recipients int) {
	s.refused.WithLabelValues(reason).Add(float64(recipients))
}

// Delivered counts recipients that the next hop has taken over.
func (s *SMTPMetrics) Delivered(recipients int) { s.delivered.Add(float64(recipients)) }

// Deferred counts tries that are to be made again.
func (s *SMTPMetrics) Deferred(recipients int) { s.deferred.Add(float64(recipients)) }

// Bounced counts recipients that were given up.
func (s *SMTPMetrics) Bounced(recipients int) { s.bounced.Add(float64(recipients)) }

// Ambiguous counts recipients that may or may not have been reached.
func (s *SMTPMetrics) Ambiguous(recipients int) { s.ambiguous.Add(float64(recipients)) }

// UserFlagged counts a user that a reach throttle flagged.
func (m *Metrics) UserFlagged(throttle string) { m.mail.flags.WithLabelValues(throttle).Inc() }

// UserStopped counts a user that a throttle stopped.
func (m *Metrics) UserStopped(throttle string) { m.mail.stops.WithLabelValues(throttle).Inc() }

// PolicyMetrics are the series of one policy service. Safe for concurrent use.
type PolicyMetrics struct {
	open  prometheus.Gauge
	asked *prometheus.CounterVec
}

// Policy returns the series of one policy service.
func (m *Metrics) Policy(gate string) *PolicyMetrics {
	of := prometheus.Labels{"gate": gate}
	return &PolicyMetrics{open: m.mail.asking.With(of), asked: m.mail.asked.MustCurryWith(of)}
}

// ForgetPolicyService drops the series of a policy service that is no more.
func (m *Metrics) ForgetPolicyService(gate string) {
	forget(gate, m.mail.asking, m.mail.asked)
}

// Connections counts connections that begin (1) or end (-1).
func (p *PolicyMetrics) Connections(delta int) { p.open.Add(float64(delta)) }

// Answered counts an answer by its action, the first word of it: DUNNO, DEFER, REJECT, HOLD, FILTER.
func (p *PolicyMetrics) Answered(action string) { p.asked.WithLabelValues(action).Inc() }
