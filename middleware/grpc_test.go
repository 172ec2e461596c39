package middleware

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir"
	"weir/gate/gatetest"
	"weir/throttle/quota"
)

// rescue answers calls whose handlers panic: grpc-go would end the process.
func rescue(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = status.Error(codes.Internal, "rescued")
		}
	}()
	return next(ctx, req)
}

// faulty panics when it is asked about a service of that name.
func faulty(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if req.(*healthpb.HealthCheckRequest).Service == "panic" {
		panic("the handler fails")
	}
	return next(ctx, req)
}

// dial serves the health service behind a limiter, on loopback, and returns a client of it.
func dial(t *testing.T, l *Limiter) healthpb.HealthClient {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(rescue, l.Unary, faulty), grpc.StreamInterceptor(l.Stream))
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := gatetest.Receive(t, served); err != nil {
			t.Error(err)
		}
	})
	return healthpb.NewHealthClient(conn)
}

// as is the context of a call of an account.
func as(t *testing.T, account string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), gatetest.Patience)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "x-api-key", account)
}

// refused checks a refusal that names a time.
func refused(t *testing.T, err error, header, trailer metadata.MD, after time.Duration) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || st.Message() != "The limit of 1 request per minute is used up." ||
		len(st.Details()) != 1 {
		t.Fatalf("%v, %v", err, st.Details())
	}
	if wait, ok := st.Details()[0].(*errdetails.RetryInfo); !ok || wait.RetryDelay.AsDuration() != after {
		t.Errorf("%v", st.Details())
	}
	if strings.Join(header["ratelimit"], "") != `"per-minute";r=0;t=60` ||
		strings.Join(header["retry-after"], "") != "60" ||
		strings.Join(trailer["grpc-retry-pushback-ms"], "") != "60000" {
		t.Errorf("%v, %v", header, trailer)
	}
}

func TestUnary(t *testing.T) {
	t.Parallel()
	q := newQuota(t, quota.Options{Policies: []quota.Policy{gatetest.PerMinute(1)}})
	l, _ := limiter(t, Options{Throttles: []weir.Throttle{q}, Account: byKey})
	client := dial(t, l)
	var header, trailer metadata.MD
	call := func(account string) error {
		_, err := client.Check(as(t, account), &healthpb.HealthCheckRequest{}, grpc.Header(&header),
			grpc.Trailer(&trailer))
		return err
	}
	if err := call("acme"); err != nil || strings.Join(header["ratelimit-policy"], "") != `"per-minute";q=1;w=60` {
		t.Fatalf("%v, %v", err, header)
	}
	refused(t, call("acme"), header, trailer, time.Minute)
	if err := call("other"); err != nil {
		t.Error(err)
	}
	if err := call("source:192.0.2.1"); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	q := newQuota(t, quota.Options{Policies: []quota.Policy{gatetest.PerMinute(1)}})
	l, _ := limiter(t, Options{Throttles: []weir.Throttle{q}, Account: byKey})
	client := dial(t, l)
	watch := func() (grpc.ServerStreamingClient[healthpb.HealthCheckResponse], error) {
		stream, err := client.Watch(as(t, "acme"), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		return stream, err
	}
	if _, err := watch(); err != nil {
		t.Fatal(err)
	}
	stream, err := watch()
	header, _ := stream.Header()
	refused(t, err, header, stream.Trailer(), time.Minute)
}

// What an event says about a call, and what throttles learn of how it ended.
func TestCallOutcome(t *testing.T) {
	t.Parallel()
	seen := make(chan weir.Event, 10)
	th := gatetest.NewThrottle(func(ev *weir.Event, _ *weir.Answer) error { seen <- *ev; return nil })
	l, _ := limiter(t, Options{Throttles: []weir.Throttle{th}, Account: byKey})
	client := dial(t, l)
	for service, want := range map[string]int{"": 200, "nobody knows it": 404, "panic": 500} {
		_, err := client.Check(as(t, "acme"), &healthpb.HealthCheckRequest{Service: service})
		if (err == nil) != (want == 200) {
			t.Errorf("%q: %v", service, err)
		}
		if o := gatetest.Receive(t, th.Settled); !o.Done || o.Status != want {
			t.Errorf("%q: %+v", service, o)
		}
		ev := gatetest.Receive(t, seen)
		if ev.Account != "acme" || ev.Route.Path != "/grpc.health.v1.Health/Check" || ev.Route.Method != "POST" ||
			ev.Route.Host != "127.0.0.1" || ev.Source.String() != "127.0.0.1" {
			t.Errorf("%+v", ev)
		}
	}
	ctx, cancel := context.WithCancel(as(t, "acme"))
	stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil || th.Held.Load() != 1 {
		t.Errorf("%v, %d held", err, th.Held.Load())
	}
	cancel()
	if o := gatetest.Receive(t, th.Settled); !o.Done {
		t.Errorf("%+v", o)
	}
}

func TestCallWaits(t *testing.T) {
	t.Parallel()
	line := gatetest.NewLine()
	l, _ := limiter(t, Options{Throttles: []weir.Throttle{line}})
	client := dial(t, l)
	results := make(chan error, 1)
	call := func(ctx context.Context) {
		_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		results <- err
	}
	go call(as(t, "acme"))
	gatetest.Receive(t, line.Turns).Grant()
	if err := gatetest.Receive(t, results); err != nil || !gatetest.Receive(t, line.Settled).Done {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(as(t, "acme"))
	go call(ctx)
	gatetest.Receive(t, line.Turns)
	cancel()
	if err := gatetest.Receive(t, results); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	if o := gatetest.Receive(t, line.Settled); o.Done || line.Held.Load() != 0 {
		t.Errorf("%+v", o)
	}
}
