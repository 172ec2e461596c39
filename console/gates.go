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

func newGateMetrics() gateMetrics {
	return gateMetrics{
		tcpOpen: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_tcp_connections", Help: "Connections open at a TCP gate now; sessions at a UDP gate.",
		}, []string{"gate"}),
		tcpWaiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_tcp_waiting", Help: "Connections held back by a throttle now.",
		}, []string{"gate"}),
		tcpJudged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_tcp_judged_total", Help: "Connections, or UDP packets, by verdict.",
		}, []string{"gate", "verdict"}),
		tcpBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_tcp_bytes_total", Help: "Bytes that went on: in from the client, out to it.",
		}, []string{"gate", "direction"}),
		tcpUnreached: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_tcp_unreached_total",
			Help: "Connections or packets for which the upstream could not be reached.",
		}, []string{"gate"}),
		upFailed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_http_upstream_failures_total",
			Help: "Requests that a server behind an HTTP gate did not answer, or not as it should, by reason.",
		}, []string{"gate", "server", "reason"}),
		upRetried: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_http_upstream_retries_total",
			Help: "Requests that failed elsewhere and were given to this server.",
		}, []string{"gate", "server"}),
		upWell: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_http_upstream_well",
			Help: "Whether a server behind an HTTP gate that has failed is well again (1) or not yet (0).",
		}, []string{"gate", "server"}),
		rlsAnswered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_rls_answers_total", Help: "Questions of Envoy, by gate, service (ratelimit, authz) and answer.",
		}, []string{"gate", "service", "code"}),
		authDecided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_auth_decisions_total", Help: "Questions of proxies about requests, by gate and verdict.",
		}, []string{"gate", "verdict"}),
		apiDecided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_api_decisions_total", Help: "Questions to the decision API, by policy and verdict.",
		}, []string{"policy", "verdict"}),
		apiHolds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_api_holds", Help: "Holds of the decision API that are open now.",
		}),
		apiExpired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_api_expired_holds_total", Help: "Holds that nobody settled in time.",
		}),
	}
}

func (m *gateMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.tcpOpen, m.tcpWaiting, m.tcpJudged, m.tcpBytes, m.tcpUnreached, m.apiDecided,
		m.authDecided, m.rlsAnswered, m.upFailed, m.upRetried, m.upWell, m.apiHolds, m.apiExpired}
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
	labels := prometheus.Labels{"gate": gate}
	m.gates.tcpOpen.DeletePartialMatch(labels)
	m.gates.tcpWaiting.DeletePartialMatch(labels)
	m.gates.tcpJudged.DeletePartialMatch(labels)
	m.gates.tcpBytes.DeletePartialMatch(labels)
	m.gates.tcpUnreached.DeletePartialMatch(labels)
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
	m.gates.rlsAnswered.DeletePartialMatch(prometheus.Labels{"gate": gate})
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
	of := prometheus.Labels{"gate": gate}
	m.gates.upFailed.DeletePartialMatch(of)
	m.gates.upRetried.DeletePartialMatch(of)
	m.gates.upWell.DeletePartialMatch(of)
}

// ForgetAuth drops the series of a gate that is no more.
func (m *Metrics) ForgetAuth(gate string) {
	m.gates.authDecided.DeletePartialMatch(prometheus.Labels{"gate": gate})
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
