package console

import (
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"weir"
)

// written are the metrics that are written while weir works. Names that end in _total are counters, in _seconds
// histograms, all others gauges.
var written = []struct{ name, help, labels string }{
	{"weir_http_requests_total", "Requests answered, by class of the status code and verdict.", "gate code verdict"},
	{"weir_http_bodies_reading", "Bodies that are read now before their requests have a place at the upstream.", "gate"},
	{"weir_http_requests_waiting", "Requests that wait for a throttle now.", "gate"},
	{"weir_http_requests_in_flight", "Requests under way now, including those that wait.", "gate"},
	{"weir_http_throttle_delay_seconds", "Latency that throttling added to a request.", "gate"},
	{"weir_http_request_duration_seconds", "Time from the request's header to the end of the response.", "gate"},
	{"weir_http_upstream_failures_total", "Requests that a server behind an HTTP gate did not answer as it should, " +
		"by reason.", "gate server reason"},
	{"weir_http_upstream_retries_total", "Requests that failed at another server and were sent to this one.",
		"gate server"},
	{"weir_http_upstream_addresses", "Addresses of a server's name that are in use, where names are looked up again.",
		"gate server"},

	{"weir_tcp_connections", "Connections open at a TCP gate now; sessions at a UDP gate.", "gate"},
	{"weir_tcp_connections_waiting", "Connections that wait for a throttle now.", "gate"},
	{"weir_tcp_verdicts_total", "Connections, or UDP packets, by verdict.", "gate verdict"},
	{"weir_tcp_bytes_total", "Bytes passed on: in from the client, out to the client.", "gate direction"},
	{"weir_tcp_upstream_failures_total", "Connections or packets for which the upstream could not be reached.", "gate"},

	{"weir_rls_answers_total", "Answers to Envoy, by service (ratelimit, authz) and code.", "gate service code"},
	{"weir_auth_decisions_total", "Answers to proxies that ask about a request, by verdict.", "gate verdict"},
	{"weir_api_decisions_total", "Answers of the decision API, by policy and verdict.", "policy verdict"},
	{"weir_api_holds", "Holds of the decision API that are open now.", ""},
	{"weir_api_expired_holds_total", "Holds that were not settled in time.", ""},

	{"weir_smtp_sessions", "SMTP sessions open now.", "gate"},
	{"weir_smtp_logins_total", "Logins by result.", "gate result"},
	{"weir_smtp_bound_reached_total", "What an SMTP gate turned away because a bound was reached.", "gate bound"},
	{"weir_mail_accepted_total", "Recipients of accepted messages, by result: passed, delayed, held, withheld, pooled.",
		"gate result"},
	{"weir_mail_refused_total", "Recipients that were refused for now or permanently, by reason.", "gate reason"},
	{"weir_mail_delivered_total", "Recipients that the next hop has accepted.", "gate"},
	{"weir_mail_deferred_total", "Delivery attempts that will be repeated, by recipient.", "gate"},
	{"weir_mail_bounced_total", "Recipients given up; the sender was notified.", "gate"},
	{"weir_mail_expired_total", "Recipients given up because nobody released the message.", "gate"},
	{"weir_mail_reminders_total", "Reminders that mail is still held.", "gate"},
	{"weir_mail_ambiguous_total", "Recipients that the next hop may or may not have accepted.", "gate"},
	{"weir_mail_stops_total", "How often a user was stopped.", "throttle"},
	{"weir_mail_untold_total", "How often a user was stopped who has no contact, and was not told.", "throttle"},
	{"weir_reach_flags_total", "How often a user was flagged.", "throttle"},
	{"weir_postfix_connections", "Connections of Postfix to a policy service open now.", "gate"},
	{"weir_postfix_requests_total", "Requests of Postfix to a policy service, by the action of the answer.",
		"gate action"},
	{"weir_self_service_requests_total", "Requests for the pages of mail users: shown, done, refused, failed, and for logins login and login_refused.",
		"result"},
	{"weir_console_logins_total", "Logins to the console by result: ok, wrong, throttled, busy, failed.", "result"},

	{"weir_traces_spans_total", "Spans of traces, by result: sent, dropped (no room), failed.",
		"result"},
	{"weir_bound_reached_total", "How often something was turned away because a bound was reached.", "bound"},
	{"weir_reloads_total", "Reloads of the configuration, by result: ok, or failed (nothing was changed).", "result"},
}

// waits are the buckets for time that people notice: from half a millisecond, which throttling should not cost, to the
// minute that a patient client waits.
var waits = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// delays are the buckets for what throttling adds: also what it costs where nobody waits.
var delays = append([]float64{.00001, .000025, .00005, .0001, .00025}, waits...)

// Metrics are the series that are written while weir works. They are kept over reloads. Safe for concurrent use.
type Metrics struct {
	registry   *prometheus.Registry
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
}

// liveHeap is what was in use after the last collection of garbage: go_gc_heap_live_bytes. A leak shows there first,
// since the size of the heap goes up and down with the garbage.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}

// NewMetrics returns metrics in a registry of their own.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), counters: map[string]*prometheus.CounterVec{},
		gauges: map[string]*prometheus.GaugeVec{}, histograms: map[string]*prometheus.HistogramVec{}}
	for _, w := range written {
		labels := strings.Fields(w.labels)
		switch {
		case strings.HasSuffix(w.name, "_total"):
			m.counters[w.name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: w.name, Help: w.help}, labels)
			m.registry.MustRegister(m.counters[w.name])
		case strings.HasSuffix(w.name, "_seconds"):
			buckets := waits
			if w.name == "weir_http_throttle_delay_seconds" {
				buckets = delays
			}
			m.histograms[w.name] = prometheus.NewHistogramVec(
				prometheus.HistogramOpts{Name: w.name, Help: w.help, Buckets: buckets}, labels)
			m.registry.MustRegister(m.histograms[w.name])
		default:
			m.gauges[w.name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: w.name, Help: w.help}, labels)
			m.registry.MustRegister(m.gauges[w.name])
		}
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	m.registry.MustRegister(build, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// A rate over a series that appears with its first event misses that event. So known series are declared.
	m.Count("weir_reloads_total", 0, "ok")
	m.Count("weir_reloads_total", 0, "failed")
	m.Count("weir_api_expired_holds_total", 0)
	m.gauge("weir_api_holds")
	for _, bound := range []string{boundConsole, boundControl, boundPages, boundPageRequests,
		boundProfiles} {
		m.DeclareBound(bound)
	}
	return m
}

func (m *Metrics) counter(name string, labels ...string) prometheus.Counter {
	return m.counters[name].WithLabelValues(labels...)
}

func (m *Metrics) gauge(name string, labels ...string) prometheus.Gauge {
	return m.gauges[name].WithLabelValues(labels...)
}

// Count adds to a counter. With 0 its series is there before anything happens: an increase from no series is none. The
// values of labels must come from small sets.
func (m *Metrics) Count(name string, n int, labels ...string) {
	m.counter(name, labels...).Add(float64(n))
}

// Move makes a gauge larger or smaller.
func (m *Metrics) Move(name string, delta int, labels ...string) {
	m.gauge(name, labels...).Add(float64(delta))
}

// Set sets a gauge.
func (m *Metrics) Set(name string, to int, labels ...string) {
	m.gauge(name, labels...).Set(float64(to))
}

// Forget drops the series that have a label of this value, as of a gate that is no more, from the metrics of one kind:
// weir_KIND_requests_total is one of them.
func (m *Metrics) Forget(kind, label, value string) {
	m.forgetWith(kind, prometheus.Labels{label: value})
}

// forgetWith drops the series of a kind that have these labels.
func (m *Metrics) forgetWith(kind string, of prometheus.Labels) {
	prefix := "weir_" + kind + "_"
	for _, w := range written {
		switch name := w.name; {
		case !strings.HasPrefix(name, prefix):
		case m.counters[name] != nil:
			m.counters[name].DeletePartialMatch(of)
		case m.gauges[name] != nil:
			m.gauges[name].DeletePartialMatch(of)
		default:
			m.histograms[name].DeletePartialMatch(of)
		}
	}
}

// Watch adds the metrics that are read from a backend. It is called once.
func (m *Metrics) Watch(b Backend) { m.registry.MustRegister(newCollector(b)) }

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true, Registry: m.registry,
	})
}

// maxScrapes is how many scrapes run at a time; one more gets 503.
const maxScrapes = 4

// DeclareBound makes the series of a bound that has not been reached yet.
func (m *Metrics) DeclareBound(bound string) { m.Count("weir_bound_reached_total", 0, bound) }

// BoundReached counts something that was turned away at a bound. The name must come from a small set.
func (m *Metrics) BoundReached(bound string) { m.Count("weir_bound_reached_total", 1, bound) }

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

// GateCounts are what a gate has counted since its series began.
type GateCounts struct {
	Verdicts [len(weir.Verdicts)]uint64
	Added    Spread // seconds added to requests; empty where that is not measured
}

// counted is the value of a counter.
func counted(c prometheus.Metric) uint64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil { // a counter of ours does not fail
		return 0
	}
	return uint64(m.GetCounter().GetValue())
}

// spreadOf is the value of a histogram.
func spreadOf(h prometheus.Metric) (s Spread) {
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		return s
	}
	var below uint64
	for _, b := range m.GetHistogram().GetBucket() {
		s.Bounds = append(s.Bounds, b.GetUpperBound())
		s.Counts = append(s.Counts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	s.Counts = append(s.Counts, m.GetHistogram().GetSampleCount()-below)
	return s
}
