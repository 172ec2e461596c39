package traces

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/loglimit"
)

// Bounds of what waits for the collector, and of how long it is waited for.
const (
	// MaxWaiting is how many bytes of spans wait, besides those that are being sent. More are dropped.
	MaxWaiting = 2 << 20
	// enough bytes are sent at once; others wait for more to come with them.
	enough     = 128 << 10
	flushEvery = 2 * time.Second
	// Spans that were not accepted are sent again after a second, and after twice as long each time.
	firstPause, longestPause = time.Second, 30 * time.Second
	giveUpAfter              = time.Minute
)

// What may become of spans.
const (
	Sent     = "sent"     // the collector has them
	Dropped  = "dropped"  // there was no room for them
	Rejected = "rejected" // the collector does not want them
	Failed   = "failed"   // the collector could not be reached for a minute, or did not understand them
)

// Results are all that may become of spans.
var Results = [...]string{Sent, Dropped, Rejected, Failed}

// An Env is what a tracer needs of the rest. The zero value neither logs nor counts.
type Env struct {
	Log     *slog.Logger
	Version string // of weir
	// Count is told what became of spans, one of Results. It must not block.
	Count func(result string, spans int64)
}

// A Tracer sends the spans of requests to a collector.
type Tracer struct {
	opts     Options // with defaults
	env      Env
	below    uint64 // what is sampled
	url      string
	resource []byte // ResourceSpans up to its spans
	scope    []byte // ScopeSpans up to its spans
	client   *http.Client

	wake    chan struct{} // holds one: there is something to do
	closing chan struct{} // closed when nothing is tried twice any more
	done    chan struct{}
	ctx     context.Context // ends when everything must be over
	cancel  context.CancelFunc
	timer   *time.Timer
	line    loglimit.Line
	began   time.Time

	mu      sync.Mutex
	waiting []byte // spans, as fields of ScopeSpans
	spans   int64  // how many
	closed  bool
}

// New returns a tracer for valid options. Nothing is sent before Start.
func New(o Options, env Env) (*Tracer, error) {
	o = o.WithDefaults()
	if !o.Enabled() {
		return nil, errors.New("traces have no endpoint")
	}
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	if env.Count == nil {
		env.Count = func(string, int64) {}
	}
	u, err := o.url()
	if err != nil {
		return nil, err
	}
	config, err := o.TLS.config()
	if err != nil {
		return nil, err
	}
	t := &Tracer{opts: o, env: env, below: threshold(*o.Sample), url: u.String(),
		resource: resourceOf(o.Service, env.Version), scope: scopeOf(env.Version),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}), began: time.Now()}
	t.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, MaxIdleConns: 1, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// Start begins to send.
func (t *Tracer) Start() {
	t.timer = time.AfterFunc(flushEvery, t.rouse)
	go t.run()
}

// Trusts reports whether the parent of a request is believed, that a trusted proxy has sent or not.
func (t *Tracer) Trusts(proxied bool) bool {
	return t.opts.Parents == ParentsAll || t.opts.Parents == ParentsProxies && proxied
}

// Address is what a span may tell of a client's address; empty for nothing.
func (t *Tracer) Address(addr netip.Addr) string {
	if !addr.IsValid() || t.opts.ClientAddress == AddressOff {
		return ""
	}
	if t.opts.ClientAddress == AddressNetwork {
		bits := 48
		if addr.Is4() {
			bits = 24
		}
		network, _ := addr.Prefix(bits)
		addr = network.Addr()
	}
	return addr.String()
}

// Add takes a span, to be sent. It never waits.
func (t *Tracer) Add(s *Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const field = 2 // of ScopeSpans
	if t.closed || len(t.waiting)+len(s.b)+2*protowire.SizeVarint(uint64(len(s.b))) > MaxWaiting {
		t.env.Count(Dropped, 1)
		return
	}
	before := len(t.waiting)
	t.waiting = appendBytes(t.waiting, field, s.b)
	t.spans++
	switch {
	case before < enough && len(t.waiting) >= enough: // once: a second call would send the few that come after these
		t.rouse()
	case before == 0:
		t.timer.Reset(flushEvery)
	}
}

func (t *Tracer) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *Tracer) run() {
	defer close(t.done)
	var spare []byte
	for {
		<-t.wake
		t.mu.Lock()
		batch, spans, last := t.waiting, t.spans, t.closed
		t.waiting, t.spans = spare[:0], 0
		t.mu.Unlock()
		if spans > 0 {
			t.deliver(t.body(batch), spans)
		}
		if spare = batch; last {
			return
		}
	}
}

// body is a request of OTLP with a batch of spans (ExportTraceServiceRequest).
func (t *Tracer) body(batch []byte) []byte {
	const resourceSpans, scopeSpans = 1, 2 // the fields
	inner := len(t.scope) + len(batch)
	outer := len(t.resource) + protowire.SizeTag(scopeSpans) + protowire.SizeBytes(inner)
	b := make([]byte, 0, outer+16)
	b = protowire.AppendVarint(protowire.AppendTag(b, resourceSpans, protowire.BytesType), uint64(outer))
	b = append(b, t.resource...)
	b = protowire.AppendVarint(protowire.AppendTag(b, scopeSpans, protowire.BytesType), uint64(inner))
	return append(append(b, t.scope...), batch...)
}

// Close sends what waits, once, until ctx ends. Later spans are dropped. It may be called once, after Start.
func (t *Tracer) Close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	t.timer.Stop()
	t.mu.Unlock()
	close(t.closing)
	t.rouse()
	defer t.client.CloseIdleConnections()
	defer t.cancel()
	select {
	case <-t.done:
	case <-ctx.Done():
		t.cancel()
		<-t.done
	}
}

// resourceOf says who sends spans, as a field of ResourceSpans.
func resourceOf(service, version string) []byte {
	const resource, attribute = 1, 1 // the fields
	var b []byte
	add := func(key, value string) {
		if value == "" {
			return
		}
		b = appendKey(b, attribute, key, protowire.SizeTag(valueText)+protowire.SizeBytes(len(value)))
		b = appendText(b, valueText, value)
	}
	add("service.name", clean(service))
	add("service.version", clean(version))
	if host, err := os.Hostname(); err == nil {
		add("host.name", clean(host))
	}
	return appendBytes(nil, resource, b)
}

// scopeOf says what makes the spans, as a field of ScopeSpans.
func scopeOf(version string) []byte {
	const scope, name, number = 1, 1, 2 // the fields
	b := appendText(nil, name, "weir")
	if version != "" {
		b = appendText(b, number, clean(version))
	}
	return appendBytes(nil, scope, b)
}
