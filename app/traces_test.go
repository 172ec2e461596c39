package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"weir/config"
	"weir/internal/testkit/needs"
	"weir/traces/tracestest"
)

// withTraces is twoPerHour with traces of every request.
func withTraces(endpoint string) string {
	return twoPerHour + fmt.Sprintf("traces: {endpoint: %q, sample: 100%%}\n", endpoint)
}

// TestTracesAndReloads: spans of requests reach the collector, a reload changes where they go and takes them away, and
// what waits is sent at the end.
func TestTracesAndReloads(t *testing.T) {
	t.Parallel()
	one, at := tracestest.Start(t)
	b := start(t, withTraces(at))
	for range 3 {
		b.get(0, "acme")
	}
	two, other := tracestest.Start(t)
	if err := b.Reload(b.config(withTraces(other))); err != nil {
		t.Fatal(err)
	}
	waitFor := func(c *tracestest.Collector, n int) {
		t.Helper()
		needs.Wait(t, fmt.Sprintf("%d spans", n), func() bool { return len(c.Spans()) >= n })
	}
	waitFor(one, 5) // two went on to the upstream, and were sent because the tracer was closed
	b.get(0, "acme")
	if err := b.Reload(b.config(withTraces(other))); err != nil { // nothing changes
		t.Fatal(err)
	}
	if err := b.Reload(b.config(twoPerHour)); err != nil {
		t.Fatal(err)
	}
	waitFor(two, 1)
	b.get(0, "acme") // no traces now
	if err := b.Reload(b.config(withTraces(at))); err != nil {
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
	b.wants("service", tracestest.Attributes(two.Resources()[0].Resource.Attributes)["service.name"], "weir")
}

// TestTracesThatCannotBegin: an endpoint that the exporter does not take fails the reload, and nothing changes.
func TestTracesThatCannotBegin(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "thrift")
	b := start(t, twoPerHour)
	_, err := config.Parse("weir.yaml", []byte("traces: {endpoint: \"http://127.0.0.1:1\"}\n"))
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL") {
		t.Error(err)
	}
	b.wants("status", b.get(0, "acme"), 200)
}

// TestCollectorsReceiver: the receiver of OpenTelemetry's Collector takes what weir sends over both protocols; only
// the environment says where it is.
func TestCollectorsReceiver(t *testing.T) {
	needs.Unwatched(t)
	receiver := needs.Module(t, "../internal/checks/otlp")
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			web, grpc := freeAddress(t), freeAddress(t)
			cmd := exec.Command(receiver, web, grpc)
			cmd.Stderr = t.Output()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			lines := bufio.NewScanner(out)
			if lines.Scan(); lines.Text() != "ready" {
				t.Fatal(lines.Text())
			}
			at := map[string]string{"http/protobuf": web, "grpc": grpc}[protocol]
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+at)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_SERVICE_NAME", "edge")
			b := start(t, twoPerHour+"traces: {sample: 100%}\n")
			b.wants("status", b.get(0, "acme"), 200)
			if err := b.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			var spans [2]struct {
				Service, Name, Kind, Trace, Span, Parent string
				Attributes                               map[string]any
			}
			for i := range spans {
				if !lines.Scan() {
					t.Fatal("no more spans")
				}
				if err := json.Unmarshal(lines.Bytes(), &spans[i]); err != nil {
					t.Fatal(err)
				}
			}
			server, client := spans[0], spans[1]
			if server.Service != "edge" || server.Kind != "Server" || client.Kind != "Client" ||
				client.Parent != server.Span || client.Trace != server.Trace || server.Attributes["weir.verdict"] != "admit" {
				t.Errorf("%+v", spans)
			}
		})
	}
}

// freeAddress is one that nobody uses.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
