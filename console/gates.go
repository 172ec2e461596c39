package console

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir"
)

// gateMetrics are the series of gates that are not HTTP.
type gateMetrics struct {
	tcpOpen      *prometheus.GaugeVec
	tcpWaiting   *prometheus.GaugeVec
	tcpJudged    *prometheus.CounterVec
	tcpBytes     *prometheus.CounterVec
	tcpUnreached *prometheus.CounterVec
	apiDecided   *prometheus.CounterVec
	authDecided  *prometheus.CounterVec
	rlsAnswered  *prometheus.CounterVec
	upFailed     *prometheus.CounterVec
	upRetried    *prometheus.CounterVec
	upWell       *prometheus.GaugeVec
	apiHolds     prometheus.Gauge
	apiExpired   prometheus.Counter
}

func newGateMetrics(s series) gateMetrics {
	return gateMetrics{
		tcpOpen: s.gauge("weir_tcp_connections", "Connections open at a TCP gate now; sessions at a UDP gate.",
			"gate"),
		tcpWaiting: s.gauge("weir_tcp_waiting", "Connections held back by a throttle now.", "gate"),
		tcpJudged:  s.counter("weir_tcp_judged_total", "Connections, or UDP packets, by verdict.", "gate", "verdict"),
		tcpBytes: s.counter("weir_tcp_bytes_total",
			"Bytes that went on: in from the client, out to it.", "gate", "direction"),
		tcpUnreached: s.counter("weir_tcp_unreached_total",
			"Connections or packets for which the upstream could not be reached.", "gate"),
		upFailed: s.counter("weir_http_upstream_failures_total",
			"Requests that a server behind an HTTP gate did not answer, or not as it should, by reason.", "gate",
			"server", "reason"),
		upRetried: s.counter("weir_http_upstream_retries_total",
			"Requests that failed elsewhere and were given to this server.", "gate", "server"),
		upWell: s.gauge("weir_http_upstream_well",
			"Whether a server behind an HTTP gate that has failed is well again (1) or not yet (0).", "gate", "server"),
		rlsAnswered: s.counter("weir_rls_answers_total",
			"Questions of Envoy, by gate, service (ratelimit, authz) and answer.", "gate", "service", "code"),
		authDecided: s.counter("weir_auth_decisions_total",
			"Questions of proxies about requests, by gate and verdict.", "gate", "verdict"),
		apiDecided: s.counter("weir_api_decisions_total",
			"Questions to the decision API, by policy and verdict.", "policy", "verdict"),
		apiHolds:   s.gauge("weir_api_holds", "Holds of the decision API that are open now.").WithLabelValues(),
		apiExpired: s.counter("weir_api_expired_holds_total", "Holds that nobody settled in time.").WithLabelValues(),
	}
}

// TCPMetrics are the series of one TCP or UDP gate. Safe for concurrent use; nothing here allocates.
type TCPMetrics struct {
	open, waiting      prometheus.Gauge
	judged             [len(weir.Verdicts)]prometheus.Counter
	in, out, unreached prometheus.Counter
}

// TCP returns the series of one gate, looked up once so that counting does not.
func (m *Metrics) TCP(gate string) *TCPMetrics {
	t := &TCPMetrics{
		open: m.gates.tcpOpen.WithLabelValues(gate), waiting: m.gates.tcpWaiting.WithLabelValues(gate),
		in: m.gates.tcpBytes.WithLabelValues(gate, "in"), out: m.gates.tcpBytes.WithLabelValues(gate, "out"),
		unreached: m.gates.tcpUnreached.WithLabelValues(gate),
	}
	for _, v := range weir.Verdicts {
		t.judged[v] = m.gates.tcpJudged.WithLabelValues(gate, v.String())
	}
	return t
}

// ForgetTCP drops the series of a gate that is no more.
func (m *Metrics) ForgetTCP(gate string) {
	forget(gate, m.gates.tcpOpen, m.gates.tcpWaiting, m.gates.tcpJudged, m.gates.tcpBytes, m.gates.tcpUnreached)
}

// Connections counts connections that begin (1) or end (-1).
func (t *TCPMetrics) Connections(delta int) { t.open.Add(float64(delta)) }

// Waiting counts connections that begin (1) or cease (-1) to wait.
func (t *TCPMetrics) Waiting(delta int) { t.waiting.Add(float64(delta)) }

// Judged counts a verdict.
func (t *TCPMetrics) Judged(v weir.Verdict) { t.judged[v].Inc() }

// Passed counts bytes.
func (t *TCPMetrics) Passed(in, out int64) {
	t.in.Add(float64(in))
	t.out.Add(float64(out))
}

// Unreached counts what found no upstream.
func (t *TCPMetrics) Unreached() { t.unreached.Inc() }

// Answered counts an answer to a proxy that asks about requests.
func (m *Metrics) Answered(gate string, v weir.Verdict) {
	m.gates.authDecided.WithLabelValues(gate, v.String()).Inc()
}

// EnvoyAnswered counts an answer to Envoy. Service and code must come from small sets.
func (m *Metrics) EnvoyAnswered(gate, service, code string) {
	m.gates.rlsAnswered.WithLabelValues(gate, service, code).Inc()
}

// ForgetRLS drops the series of a gate that is no more.
func (m *Metrics) ForgetRLS(gate string) {
	forget(gate, m.gates.rlsAnswered)
}

// UpstreamFailed counts a failure of a server that is configured. The reason must come from a small set.
func (m *Metrics) UpstreamFailed(gate, server, reason string) {
	m.gates.upFailed.WithLabelValues(gate, server, reason).Inc()
}

// UpstreamRetried counts a request that a server got because another failed.
func (m *Metrics) UpstreamRetried(gate, server string) {
	m.gates.upRetried.WithLabelValues(gate, server).Inc()
}

// UpstreamTurned tells whether a server is well.
func (m *Metrics) UpstreamTurned(gate, server string, well bool) {
	n := 0.0
	if well {
		n = 1
	}
	m.gates.upWell.WithLabelValues(gate, server).Set(n)
}

// forgetUpstream drops the series of the servers behind a gate that is no more.
func (m *Metrics) forgetUpstream(gate string) {
	forget(gate, m.gates.upFailed, m.gates.upRetried, m.gates.upWell)
}

// ForgetAuth drops the series of a gate that is no more.
func (m *Metrics) ForgetAuth(gate string) {
	forget(gate, m.gates.authDecided)
}

// Decided counts an answer of the decision API. The policy must be one that is configured.
func (m *Metrics) Decided(policy string, v weir.Verdict) {
	m.gates.apiDecided.WithLabelValues(policy, v.String()).Inc()
}

// Holds counts holds that are opened (1) or settled (-1).
func (m *Metrics) Holds(delta int) { m.gates.apiHolds.Add(float64(delta)) }

// HoldExpired counts a hold that nobody settled.
func (m *Metrics) HoldExpired() { m.gates.apiExpired.Inc() }

// ForgetPolicy drops the series of a policy that is no more.
func (m *Metrics) ForgetPolicy(policy string) {
	m.gates.apiDecided.DeletePartialMatch(prometheus.Labels{"policy": policy})
}
