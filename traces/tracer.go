package traces

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"weir/internal/logs"
)

// What may become of spans.
const (
	Sent    = "sent"    // the collector has them
	Dropped = "dropped" // there was no room for them
	Failed  = "failed"  // the collector could not be reached for a minute, or did not want them
)

// Results are all that may become of spans.
var Results = [...]string{Sent, Dropped, Failed}

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
	sampler  sdk.Sampler
	exporter sdk.SpanExporter
	resource *resource.Resource  // who sends
	provider *sdk.TracerProvider // nil before Start
	spans    trace.Tracer
}

// New returns a tracer for valid options that are enabled. It may not be used before Start.
func New(o Options, env Env) (*Tracer, error) {
	o = o.WithDefaults()
	if !o.Enabled() {
		return nil, errors.New("traces have no endpoint")
	}
	exporter, err := o.exporter()
	if err != nil {
		return nil, err
	}
	return newTracer(o, env, exporter)
}

func newTracer(o Options, env Env, exporter sdk.SpanExporter) (*Tracer, error) {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	if env.Count == nil {
		env.Count = func(string, int64) {}
	}
	who, err := resource.New(context.Background(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "weir"), attribute.String("service.version", env.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	return &Tracer{opts: o, env: env, sampler: sdk.TraceIDRatioBased(float64(*o.Sample)), exporter: exporter,
		resource: who}, nil
}

// Start begins to send.
func (t *Tracer) Start() {
	room := mostWaiting()
	q := &queue{env: t.env, room: int64(room), began: time.Now()}
	batches := sdk.NewBatchSpanProcessor(sender{t.exporter, q}, sdk.WithMaxQueueSize(room))
	// Only requests that are sampled have spans.
	t.provider = sdk.NewTracerProvider(sdk.WithResource(t.resource), sdk.WithIDGenerator(ids{}),
		sdk.WithSpanProcessor(taker{batches, q}), sdk.WithSampler(sdk.AlwaysSample()))
	t.spans = t.provider.Tracer("weir", trace.WithInstrumentationVersion(t.env.Version))
}

// exporter speaks the protocol that OTEL_EXPORTER_OTLP_PROTOCOL names, by default HTTP.
func (o *Options) exporter() (sdk.SpanExporter, error) {
	grpc, err := speaksGRPC()
	if err != nil {
		return nil, err
	}
	u, err := o.url()
	if err != nil {
		return nil, err
	}
	if grpc {
		var options []otlptracegrpc.Option
		if u != nil {
			options = append(options, otlptracegrpc.WithEndpointURL(u.String()))
		}
		return otlptracegrpc.New(context.Background(), options...)
	}
	var options []otlptracehttp.Option
	if u != nil {
		options = append(options, otlptracehttp.WithEndpointURL(u.String()))
	}
	return otlptracehttp.New(context.Background(), options...)
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

// Close sends what waits, until ctx ends. Later spans are dropped.
func (t *Tracer) Close(ctx context.Context) { // what was not sent is counted
	if t.provider != nil {
		_ = t.provider.Shutdown(ctx)
	}
}

// MaxWaiting is how many spans may wait for the collector, whatever OTEL_BSP_MAX_QUEUE_SIZE says.
const MaxWaiting = 1 << 16

// mostWaiting is how many may wait.
func mostWaiting() int {
	const usual = sdk.DefaultMaxQueueSize
	n, err := strconv.Atoi(cmp.Or(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"), strconv.Itoa(usual)))
	if err != nil || n < 1 {
		return usual
	}
	return min(n, MaxWaiting)
}

// A queue counts what becomes of spans, in front of the SDK's queue and behind it: the SDK drops silently.
type queue struct {
	env     Env
	room    int64
	waiting atomic.Int64 // also those that are being sent
	ended   atomic.Bool
	line    logs.Line
	began   time.Time
}

// A taker takes spans.
type taker struct {
	sdk.SpanProcessor
	*queue
}

// OnEnd takes one, unless there is no room.
func (f taker) OnEnd(s sdk.ReadOnlySpan) {
	if f.waiting.Add(1) > f.room {
		f.waiting.Add(-1)
		f.env.Count(Dropped, 1)
		return
	}
	f.SpanProcessor.OnEnd(s)
}

// Shutdown sends what waits, until ctx ends.
func (f taker) Shutdown(ctx context.Context) error {
	err := f.SpanProcessor.Shutdown(ctx)
	f.ended.Store(true)
	f.env.Count(Failed, f.waiting.Load())
	return err
}

// A sender sends them.
type sender struct {
	sdk.SpanExporter
	*queue
}

// ExportSpans sends a batch. Errors are told here, as those of the SDK go to one place for the whole process.
func (b sender) ExportSpans(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	err := b.SpanExporter.ExportSpans(ctx, batch)
	if b.ended.Load() {
		return nil // they are counted as failed
	}
	n, result := int64(len(batch)), Sent
	b.waiting.Add(-n)
	if err != nil {
		result = Failed
		if more, ok := b.line.Now(time.Since(b.began)); ok {
			b.env.Log.Warn("the collector of traces did not take spans", "spans", n, "err", clean(err.Error()),
				"unlogged_before", more) // what the collector says may be long
		}
	}
	b.env.Count(result, n)
	return nil
}
