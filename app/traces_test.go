package app

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/needs"
	"weir/traces/tracestest"
)

// withTraces is twoPerHour with traces of every request.
func withTraces(endpoint, more string) string {
	return twoPerHour + fmt.Sprintf("traces: {endpoint: %q, sample: 100%%%s}\n", endpoint, more)
}

// TestTracesAndReloads: spans of requests reach the collector, a reload changes where they go and takes them away, and
// what waits is sent at the end.
func TestTracesAndReloads(t *testing.T) {
	t.Parallel()
	one, at := tracestest.Start(t)
	b := start(t, withTraces(at, ""))
	for range 3 {
		b.get(0, "acme")
	}
	two, other := tracestest.Start(t)
	if err := b.Reload(b.config(withTraces(other, ", service: edge"))); err != nil {
		t.Fatal(err)
	}
	waitFor := func(c *tracestest.Collector, n int) {
		t.Helper()
		needs.Wait(t, fmt.Sprintf("%d spans", n), func() bool { return len(c.Spans()) >= n })
	}
	waitFor(one, 5) // two went on to the upstream, and were sent because the tracer was closed
	b.get(0, "acme")
	if err := b.Reload(b.config(withTraces(other, ", service: edge"))); err != nil { // nothing changes
		t.Fatal(err)
	}
	if err := b.Reload(b.config(twoPerHour)); err != nil {
		t.Fatal(err)
	}
	waitFor(two, 1)
	b.get(0, "acme") // no traces now
	if err := b.Reload(b.config(withTraces(at, ""))); err != nil {
		t.Fatal(err)
	}
	b.get(0, "other")
	if _, body := b.page("/metrics"); !strings.Contains(body, `weir_traces_spans_total{result="sent"} 6`) ||
		!strings.Contains(body, `weir_traces_spans_total{result="dropped"} 0`) {
		t.Error(body)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wants("spans", fmt.Sprint(len(one.Spans()), len(two.Spans())), "7 1")
	last := tracestest.Attributes(two.Spans()[0].Attributes)
	b.wants("a refusal", fmt.Sprint(last["weir.verdict"], last["weir.throttle"], last["weir.rule"]),
		"refuseplansper-hour")
	b.wants("service", tracestest.Attributes(two.Resources()[0].Resource.Attributes)["service.name"], "edge")
}

// TestTracesThatCannotBegin: a certificate that cannot be read fails the reload, and nothing changes.
func TestTracesThatCannotBegin(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	err := b.Reload(b.config(withTraces("https://127.0.0.1:1", ", tls: {ca: /does/not/exist}")))
	if err == nil || !strings.HasPrefix(err.Error(), "traces.tls.ca: open /does/not/exist") {
		t.Error(err)
	}
	b.wants("status", b.get(0, "acme"), 200)
}
