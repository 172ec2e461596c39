package traces

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir"
	"weir/traces/tracestest"
)

// counts are what became of spans.
type counts struct {
	mu sync.Mutex
	of map[string]int64
}

func (c *counts) count(result string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int64{}
	}
	c.of[result] += n
}

func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.of)
}

// connected makes a tracer that speaks to a collector over memory, so that simulated time may pass.
func connected(t *testing.T, c *tracestest.Collector, o Options) (*Tracer, *counts) {
	t.Helper()
	o.Endpoint = "http://collector"
	n := new(counts)
	tr, err := New(o, Env{Version: "1.2.3", Count: n.count})
	if err != nil {
		t.Fatal(err)
	}
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	tr.client.Transport.(*http.Transport).DialContext = l.dial
	server := &http.Server{Handler: c}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	tr.Start()
	return tr, n
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func add(tr *Tracer, name string) {
	var c Context
	var s Span
	tr.Begin(&c, nil, false)
	now := time.Now()
	s.Begin(&c, Server, name, now, now)
	tr.Add(&s)
}

// TestSpansAreOTLP: OpenTelemetry's own types read what is sent, field by field.
func TestSpansAreOTLP(t *testing.T) {
	c, url := tracestest.Start(t)
	n := new(counts)
	tr, err := New(Options{Endpoint: url, Service: "edge", Headers: map[string]string{"x-key": "secret"}},
		Env{Version: "1.2.3", Count: n.count})
	if err != nil {
		t.Fatal(err)
	}
	tr.Start()
	start := time.Date(2026, 11, 17, 19, 0, 0, 123456789, time.UTC)
	var of Context
	var s Span
	tr.Begin(&of, []string{good}, true)
	s.Begin(&of, Server, "GET", start, start.Add(time.Second))
	s.Text("url.path", "/a\xffb")
	s.Text("nothing", "")
	s.Text("long", strings.Repeat("x", 2*maxText))
	s.Int("http.response.status_code", 503)
	s.Int("negative", -1)
	s.Float("weir.waited_ms", 1.5)
	s.Failed()
	tr.Add(&s)
	s.Begin(&of, Client, "GET", start, start.Add(time.Second/2))
	tr.Add(&s)
	var other Context
	tr.Begin(&other, []string{good}, false)
	s.Begin(&other, Server, "POST", start, start)
	tr.Add(&s)
	tr.Close(t.Context())
	if n.String() != "map[sent:3]" || len(c.Requests()) != 1 || c.Requests()[0].Header.Get("X-Key") != "secret" {
		t.Fatalf("%v, %d calls", n, len(c.Requests()))
	}
	resource := tracestest.Attributes(c.Resources()[0].Resource.Attributes)
	scope := c.Resources()[0].ScopeSpans[0].Scope
	if resource["service.name"] != "edge" || resource["service.version"] != "1.2.3" || resource["host.name"] == nil ||
		scope.Name != "weir" || scope.Version != "1.2.3" {
		t.Errorf("%v %v", resource, scope)
	}
	all := c.Spans()
	if len(all) != 3 {
		t.Fatalf("%d spans", len(all))
	}
	text := func(s string) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
	}
	number := func(n int64) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}
	}
	parent, _ := ParseParent([]string{good})
	wants := []*tracepb.Span{
		{TraceId: parent.Trace[:], SpanId: of.Server[:], ParentSpanId: parent.Span[:], Name: "GET",
			Kind:              tracepb.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: uint64(start.UnixNano()), EndTimeUnixNano: uint64(start.Add(time.Second).UnixNano()),
			Attributes: []*commonpb.KeyValue{
				{Key: "url.path", Value: text("/a\uFFFDb")}, {Key: "long", Value: text(strings.Repeat("x", maxText))},
				{Key: "http.response.status_code", Value: number(503)}, {Key: "negative", Value: number(-1)},
				{Key: "weir.waited_ms", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 1.5}}},
			},
			Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}, Flags: 0x301},
		{TraceId: parent.Trace[:], SpanId: of.Client[:], ParentSpanId: of.Server[:], Name: "GET",
			Kind:              tracepb.Span_SPAN_KIND_CLIENT,
			StartTimeUnixNano: uint64(start.UnixNano()), EndTimeUnixNano: uint64(start.Add(time.Second / 2).UnixNano()),
			Flags: 0x101},
		{TraceId: other.Trace[:], SpanId: other.Server[:], Name: "POST", Kind: tracepb.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: uint64(start.UnixNano()), EndTimeUnixNano: uint64(start.UnixNano()),
			Links: []*tracepb.Span_Link{{TraceId: parent.Trace[:], SpanId: parent.Span[:], Flags: 0x301}},
			Flags: 0x101},
	}
	for i, want := range wants {
		if !proto.Equal(all[i], want) {
			t.Errorf("span %d:\n got %v\nwant %v", i, all[i], want)
		}
	}
}

// Spans go together: after two seconds, or when there are enough.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(tracestest.Collector)
		tr, n := connected(t, c, Options{})
		add(tr, "one")
		add(tr, "two")
		time.Sleep(flushEvery - 1)
		if synctest.Wait(); len(c.Requests()) != 0 {
			t.Error("too early")
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); len(c.Requests()) != 1 || len(c.Spans()) != 2 {
			t.Errorf("%d calls, %d spans", len(c.Requests()), len(c.Spans()))
		}
		name := strings.Repeat("x", 1000)
		for range enough/1000 + 1 {
			add(tr, name)
		}
		if synctest.Wait(); len(c.Requests()) != 2 {
			t.Errorf("%d calls", len(c.Requests()))
		}
		add(tr, "last")
		tr.Close(t.Context())
		if want := fmt.Sprintf("map[sent:%d]", 2+enough/1000+1+1); n.String() != want {
			t.Errorf("%v, want %s", n, want)
		}
		add(tr, "late")
		if !strings.Contains(n.String(), "dropped:1") {
			t.Error(n)
		}
	})
}

// A collector that does not answer holds nobody up, and costs no more than the bound.
func TestCollectorThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		c := &tracestest.Collector{Answer: func(int, http.ResponseWriter) bool { <-hang; return true }}
		tr, n := connected(t, c, Options{})
		name := strings.Repeat("x", 1<<20-100)
		add(tr, name) // is being sent
		synctest.Wait()
		add(tr, name)
		add(tr, name)
		if n.String() != "map[]" {
			t.Error(n)
		}
		add(tr, strings.Repeat("x", 300)) // one too many
		if n.String() != "map[dropped:1]" || len(tr.waiting) > MaxWaiting {
			t.Error(n, len(tr.waiting))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		tr.Close(ctx)
		if took := time.Since(began); took != 3*time.Second || n.String() != "map[dropped:1 failed:3]" {
			t.Error(took, n)
		}
	})
}

// What was not accepted is sent again, later and later, for a minute.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(call int, w http.ResponseWriter) bool
		calls  func(int) bool
		want   string
	}{
		{"busy for a while", func(call int, w http.ResponseWriter) bool {
			if call <= 3 {
				w.WriteHeader([]int{0, 429, 503, 502}[call])
			}
			return call <= 3
		}, func(n int) bool { return n == 4 }, "map[sent:1]"},
		{"says when", func(call int, w http.ResponseWriter) bool {
			w.Header().Set("Retry-After", "25")
			w.WriteHeader(503)
			return true
		}, func(n int) bool { return n == 3 }, "map[failed:1]"},
		{"busy", func(_ int, w http.ResponseWriter) bool { w.WriteHeader(504); return true },
			func(n int) bool { return n >= 5 && n <= 7 }, "map[failed:1]"},
		{"wrong", func(_ int, w http.ResponseWriter) bool { w.WriteHeader(400); return true },
			func(n int) bool { return n == 1 }, "map[failed:1]"},
		{"elsewhere", func(_ int, w http.ResponseWriter) bool {
			w.Header().Set("Location", "http://elsewhere/")
			w.WriteHeader(307)
			return true
		}, func(n int) bool { return n == 1 }, "map[failed:1]"},
		{"breaks off", func(call int, w http.ResponseWriter) bool {
			if call == 1 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, func(n int) bool { return n == 2 }, "map[sent:1]"},
		{"some are rejected", func(_ int, w http.ResponseWriter) bool {
			_, _ = w.Write([]byte("\x0a\x07\x08\x01\x12\x03why")) // partial_success {rejected_spans: 1, error_message}
			return true
		}, func(n int) bool { return n == 1 }, "map[rejected:1 sent:0]"},
		{"nonsense", func(_ int, w http.ResponseWriter) bool {
			_, _ = w.Write([]byte("\x0a\xff"))
			return true
		}, func(n int) bool { return n == 1 }, "map[sent:1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := &tracestest.Collector{Answer: c.answer}
				tr, n := connected(t, at, Options{})
				add(tr, "one")
				time.Sleep(giveUpAfter + 2*longestPause)
				if synctest.Wait(); !c.calls(len(at.Requests())) || n.String() != c.want {
					t.Errorf("%d calls, %v", len(at.Requests()), n)
				}
				tr.Close(t.Context())
			})
		})
	}
}

// An end does not wait for a collector that is to be asked again.
func TestCloseTriesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &tracestest.Collector{Answer: func(_ int, w http.ResponseWriter) bool { w.WriteHeader(503); return true }}
		tr, n := connected(t, c, Options{})
		add(tr, "one")
		time.Sleep(flushEvery)
		synctest.Wait()
		add(tr, "two")
		began := time.Now()
		tr.Close(t.Context())
		if took := time.Since(began); took != 0 || n.String() != "map[failed:2]" || len(c.Requests()) != 2 {
			t.Error(took, n, len(c.Requests()))
		}
	})
}

// Certificates on both sides: the endpoint's own authority, and one for weir.
func TestTLS(t *testing.T) {
	c := new(tracestest.Collector)
	server := httptest.NewUnstartedServer(c)
	clients := x509.NewCertPool()
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, kind string, der []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(path(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ca.pem", "CERTIFICATE", server.Certificate().Raw) // it has signed itself
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true,
		BasicConstraintsValid: true}
	own, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(own)
	if err != nil {
		t.Fatal(err)
	}
	clients.AddCert(parsed)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write("cert.pem", "CERTIFICATE", own)
	write("key.pem", "PRIVATE KEY", key)
	n := new(counts)
	try := func(certs TLS) {
		tr, err := New(Options{Endpoint: server.URL, TLS: certs}, Env{Count: n.count})
		if err != nil {
			t.Fatal(err)
		}
		tr.Start()
		add(tr, "one")
		tr.Close(t.Context())
	}
	try(TLS{CA: path("ca.pem"), Cert: path("cert.pem"), Key: path("key.pem")})
	if n.String() != "map[sent:1]" {
		t.Error(n)
	}
	try(TLS{CA: path("ca.pem")})
	try(TLS{})
	if n.String() != "map[failed:2 sent:1]" {
		t.Error(n)
	}
	for _, certs := range []TLS{{CA: path("none")}, {CA: path("key.pem")}, {Cert: path("cert.pem"), Key: path("none")}} {
		if _, err := New(Options{Endpoint: server.URL, TLS: certs}, Env{}); len(weir.FieldErrors(err)) != 1 {
			t.Errorf("%+v: %v", certs, err)
		}
	}
}

func BenchmarkSpan(b *testing.B) {
	tr, err := New(Options{Endpoint: "http://127.0.0.1:1", Sample: new(weir.Share(1))}, Env{})
	if err != nil {
		b.Fatal(err)
	}
	tr.Start()
	defer tr.cancel()
	var c Context
	var s Span
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		tr.Begin(&c, nil, false)
		s.Begin(&c, Server, "GET", now, now)
		s.Text("http.request.method", "GET")
		s.Text("url.path", "/v1/search")
		s.Text("server.address", "api.example.com")
		s.Int("http.response.status_code", 200)
		s.Text("weir.verdict", "admit")
		tr.Add(&s)
	}
}
