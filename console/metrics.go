package console

import (
	"net/http"
	"regexp"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir"
)

// waits are the buckets for time that people notice: from a millisecond, which throttling should not cost, to the
// minute that a patient client waits.
var waits = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// Metrics are the series that are written while weir works. They are kept over reloads. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	inFlight *prometheus.GaugeVec
	added    *prometheus.HistogramVec
	duration *prometheus.HistogramVec
	bounds   *prometheus.CounterVec
	reloads  *prometheus.CounterVec
	gates    gateMetrics
	mail     mailMetrics
}

// series makes metrics that are registered.
type series struct{ *prometheus.Registry }

func (s series) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	s.MustRegister(c)
	return c
}

func (s series) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	s.MustRegister(g)
	return g
}

// seconds is a histogram of waits at gates.
func (s series) seconds(name, help string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: waits}, []string{"gate"})
	s.MustRegister(h)
	return h
}

// forget drops what is known of a gate that is no more.
func forget(gate string, from ...interface{ DeletePartialMatch(prometheus.Labels) int }) {
	for _, vec := range from {
		vec.DeletePartialMatch(prometheus.Labels{"gate": gate})
	}
}

// liveHeap is what was in use after the last collection of garbage: go_gc_heap_live_bytes. A leak shows there first,
// since the size of the heap goes up and down with the garbage.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}

// NewMetrics returns metrics in a registry of their own.
func NewMetrics(version string) *Metrics {
	s := series{prometheus.NewRegistry()}
	m := &Metrics{
		registry: s.Registry,
		gates:    newGateMetrics(s),
		mail:     newMailMetrics(s),
		requests: s.counter("weir_http_requests_total",
			"Requests answered, by gate, class of the status code and verdict.", "gate", "code", "verdict"),
		waiting:  s.gauge("weir_http_waiting", "Requests held back by a throttle now.", "gate"),
		inFlight: s.gauge("weir_http_in_flight", "Requests under way now, those that wait included.", "gate"),
		added:    s.seconds("weir_http_added_seconds", "Latency that throttling added to a request."),
		duration: s.seconds("weir_http_duration_seconds", "From the request's headers to the end of the response."),
		bounds: s.counter("weir_bound_reached_total",
			"How often something was turned away because a bound was reached.", "bound"),
		reloads: s.counter("weir_reloads_total",
			"Reloads of the configuration, by result: ok, or failed (nothing was changed).", "result"),
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	m.registry.MustRegister(build, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, result := range []bool{true, false} {
		m.reloads.WithLabelValues(resultName(result))
	}
	m.DeclareBound(boundConsole)
	m.DeclareBound(boundControl)
	m.DeclareBound(boundPages)
	m.DeclareBound(boundPageRequests)
	return m
}

// Watch adds the counters of a backend's throttles, of its invalid list, of its mail and of its store. It is called
// once.
func (m *Metrics) Watch(b Backend) {
	m.registry.MustRegister(throttleCollector{b}, banCollector{b}, mailCollector{b})
}

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true, Registry: m.registry,
	})
}

// maxScrapes is how many scrapes run at a time; one more gets 503.
const maxScrapes = 4

// DeclareBound makes the series of a bound that has not been reached yet. A rate over a series that appears with its
// first event misses that event.
func (m *Metrics) DeclareBound(bound string) { m.bounds.WithLabelValues(bound) }

// BoundReached counts something that was turned away at a bound. The name must come from a small set.
func (m *Metrics) BoundReached(bound string) { m.bounds.WithLabelValues(bound).Inc() }

// Reloaded counts a reload.
func (m *Metrics) Reloaded(ok bool) { m.reloads.WithLabelValues(resultName(ok)).Inc() }

func resultName(ok bool) string {
	if ok {
		return "ok"
	}
	return "failed"
}

// classes are the status codes that a gate can answer with, by their first digit. Whatever else comes is counted as
// "other".
var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// HTTP returns the series of one gate, looked up once so that counting a request does not.
func (m *Metrics) HTTP(gate string) *HTTPMetrics {
	h := &HTTPMetrics{
		waiting: m.waiting.WithLabelValues(gate), inFlight: m.inFlight.WithLabelValues(gate),
		added: m.added.WithLabelValues(gate), duration: m.duration.WithLabelValues(gate),
	}
	for c, class := range classes {
		for _, v := range weir.Verdicts {
			h.requests[c][v] = m.requests.WithLabelValues(gate, class, v.String())
		}
	}
	return h
}

// Forget drops the series of a gate that is no more.
func (m *Metrics) Forget(gate string) {
	forget(gate, m.requests, m.waiting, m.inFlight, m.added, m.duration)
	m.forgetUpstream(gate)
}

// HTTPMetrics are the series of one HTTP gate. Safe for concurrent use; nothing here allocates.
type HTTPMetrics struct {
	requests [len(classes)][len(weir.Verdicts)]prometheus.Counter
	waiting  prometheus.Gauge
	inFlight prometheus.Gauge
	added    prometheus.Observer
	duration prometheus.Observer
}

// Waiting counts requests that begin (1) or cease (-1) to wait.
func (h *HTTPMetrics) Waiting(delta int) { h.waiting.Add(float64(delta)) }

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
