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
