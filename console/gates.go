package console

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir"
)

// classes are the status codes that a gate can answer with, by their first digit. All others are counted as "other".
var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// HTTPMetrics are the series of one HTTP gate. Safe for concurrent use; nothing here allocates.
type HTTPMetrics struct {
	requests          [len(classes)][len(weir.Verdicts)]prometheus.Counter
	waiting, inFlight prometheus.Gauge
	reading           prometheus.Gauge
	added, duration   prometheus.Observer
}

// HTTP returns the series of one gate, looked up once so that counting a request does not.
func (m *Metrics) HTTP(gate string) *HTTPMetrics {
	h := &HTTPMetrics{
		waiting:  m.gauge("weir_http_requests_waiting", gate),
		inFlight: m.gauge("weir_http_requests_in_flight", gate),
		reading:  m.gauge("weir_http_bodies_reading", gate),
		added:    m.histograms["weir_http_throttle_delay_seconds"].WithLabelValues(gate),
		duration: m.histograms["weir_http_request_duration_seconds"].WithLabelValues(gate),
	}
	for c, class := range classes {
		for _, v := range weir.Verdicts {
			h.requests[c][v] = m.counter("weir_http_requests_total", gate, class, v.String())
		}
	}
	return h
}

// Forget drops the series of an HTTP gate that is no more, and those of its servers.
func (m *Metrics) Forget(gate string) { m.forget("http", gate) }

// Waiting counts requests that begin (1) or cease (-1) to wait.
func (h *HTTPMetrics) Waiting(delta int) { h.waiting.Add(float64(delta)) }

// Reading counts bodies that begin (1) or cease (-1) to be read before their requests have a place.
func (h *HTTPMetrics) Reading(delta int) { h.reading.Add(float64(delta)) }

// InFlight counts requests that begin (1) or end (-1).
func (h *HTTPMetrics) InFlight(delta int) { h.inFlight.Add(float64(delta)) }

// Done counts a request that has ended: its status code, the verdict, the latency that throttling added and the whole.
func (h *HTTPMetrics) Done(code int, v weir.Verdict, added, took time.Duration) {
	class := code / 100
	if class < 1 || class >= len(classes) {
		class = 0
	}
	h.requests[class][min(v, weir.Refuse)].Inc()
	h.added.Observe(added.Seconds())
	h.duration.Observe(took.Seconds())
}

// Counts are the requests by verdict so far, and what throttling added to them.
func (h *HTTPMetrics) Counts() GateCounts {
	var all GateCounts
	for c := range h.requests {
		for v := range all.Verdicts {
			all.Verdicts[v] += counted(h.requests[c][v])
		}
	}
	all.Added = spreadOf(h.added.(prometheus.Metric))
	return all
}

// UpstreamFailed counts a failure of a server that is configured. The reason must come from a small set.
func (m *Metrics) UpstreamFailed(gate, server, reason string) {
	m.counter("weir_http_upstream_failures_total", gate, server, reason).Inc()
}

// UpstreamRetried counts a request that a server got because another failed.
func (m *Metrics) UpstreamRetried(gate, server string) {
	m.counter("weir_http_upstream_retries_total", gate, server).Inc()
}

// UpstreamAddresses notes how many addresses of a server's name are in use.
func (m *Metrics) UpstreamAddresses(gate, server string, n int) {
	m.gauge("weir_http_upstream_addresses", gate, server).Set(float64(n))
}

// UpstreamLeft drops the series of a server that is no more.
func (m *Metrics) UpstreamLeft(gate, server string) {
	m.forgetWith("http", prometheus.Labels{"gate": gate, "server": server})
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
		open:      m.gauge("weir_tcp_connections", gate),
		waiting:   m.gauge("weir_tcp_connections_waiting", gate),
		in:        m.counter("weir_tcp_bytes_total", gate, "in"),
		out:       m.counter("weir_tcp_bytes_total", gate, "out"),
		unreached: m.counter("weir_tcp_upstream_failures_total", gate),
	}
	for _, v := range weir.Verdicts {
		t.judged[v] = m.counter("weir_tcp_verdicts_total", gate, v.String())
	}
	return t
}

// ForgetTCP drops the series of a TCP or UDP gate that is no more.
func (m *Metrics) ForgetTCP(gate string) { m.forget("tcp", gate) }

// Connections counts connections that begin (1) or end (-1).
func (t *TCPMetrics) Connections(delta int) { t.open.Add(float64(delta)) }

// Waiting counts connections that begin (1) or cease (-1) to wait.
func (t *TCPMetrics) Waiting(delta int) { t.waiting.Add(float64(delta)) }

// Judged counts a verdict.
func (t *TCPMetrics) Judged(v weir.Verdict) { t.judged[v].Inc() }

// Counts are the connections, or packets, by verdict so far.
func (t *TCPMetrics) Counts() (all GateCounts) {
	for v := range all.Verdicts {
		all.Verdicts[v] = counted(t.judged[v])
	}
	return all
}

// Passed counts bytes.
func (t *TCPMetrics) Passed(in, out int64) {
	t.in.Add(float64(in))
	t.out.Add(float64(out))
}

// Unreached counts what found no upstream.
func (t *TCPMetrics) Unreached() { t.unreached.Inc() }

// Answered counts an answer to a proxy that asks about requests.
func (m *Metrics) Answered(gate string, v weir.Verdict) {
	m.counter("weir_auth_decisions_total", gate, v.String()).Inc()
}

// ForgetAuth drops the series of a gate for forward-auth that is no more.
func (m *Metrics) ForgetAuth(gate string) { m.forget("auth", gate) }

// EnvoyAnswered counts an answer to Envoy. Service and code must come from small sets.
func (m *Metrics) EnvoyAnswered(gate, service, code string) {
	m.counter("weir_rls_answers_total", gate, service, code).Inc()
}

// ForgetRLS drops the series of a gate for Envoy that is no more.
func (m *Metrics) ForgetRLS(gate string) { m.forget("rls", gate) }

// Decided counts an answer of the decision API. The policy must be one that is configured.
func (m *Metrics) Decided(policy string, v weir.Verdict) {
	m.counter("weir_api_decisions_total", policy, v.String()).Inc()
}

// Holds counts holds that are opened (1) or settled (-1).
func (m *Metrics) Holds(delta int) { m.gauge("weir_api_holds").Add(float64(delta)) }

// HoldExpired counts a hold that was not settled in time.
func (m *Metrics) HoldExpired() { m.counter("weir_api_expired_holds_total").Inc() }

// ForgetPolicy drops the series of a policy of the decision API that is no more.
func (m *Metrics) ForgetPolicy(policy string) {
	m.counters["weir_api_decisions_total"].DeletePartialMatch(prometheus.Labels{"policy": policy})
}
