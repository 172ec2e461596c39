package rlsgate

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"weir/internal/testkit/needs"
	"weir/policy"
	"weir/throttle/quota"
)

// TestReload: new rules take whole or not at all, and counters go on.
func TestReload(t *testing.T) {
	o := Options{Config: write(t, oneRule(5))}
	r := newRig(t, o, nil)
	want(t, r.ask("edge", "user=ann +4"), "ok 5/minute 1")
	if err := os.WriteFile(o.Config, []byte("domain: edge\ndescriptors: nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Prepare(o, r.parts(o, nil)); err == nil ||
		!strings.Contains(err.Error(), "config.yaml:2:14: expected a list") {
		t.Errorf("a broken file: %v", err)
	}
	if err := os.WriteFile(o.Config, []byte(oneRule(10)), 0o600); err != nil {
		t.Fatal(err)
	}
	commit, abort, err := r.Prepare(o, r.parts(o, nil))
	if err != nil {
		t.Fatal(err)
	}
	abort()
	commit()
	want(t, r.ask("edge", "user=ann +0"), "ok 5/minute 1")
	r.swap(o, r.parts(o, nil))
	want(t, r.ask("edge", "user=ann"), "ok 10/minute 5")
}

// TestReloadUnderLoad: no call is lost when options change that gRPC takes once and for all.
func TestReloadUnderLoad(t *testing.T) {
	o := Options{Config: write(t, oneRule(1_000_000))}
	r := newRig(t, o, nil)
	stop, done := make(chan struct{}), make(chan error)
	var asked atomic.Int64
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := r.rls.ShouldRateLimit(within(t), &rls.RateLimitRequest{Domain: "edge",
				Descriptors: descriptors("user=ann")}); err != nil {
				done <- err
				return
			}
			asked.Add(1)
		}
	}()
	for i := range 10 {
		o.Bounds.Streams = 100 + i
		before := asked.Load()
		r.swap(o, r.parts(o, nil))
		needs.Wait(t, "more was asked", func() bool {
			select {
			case err := <-done:
				t.Fatal(err)
			default:
			}
			return asked.Load() >= before+10
		})
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStop: a stop waits for what is under way, ends those who watch, and is over when it is over.
func TestStop(t *testing.T) {
	o := edge("user")
	r := newRig(t, o, map[string]quota.Options{"plans": perMinute(1)})
	chain, judging, free := blocked(t)
	r.swap(o, Parts{Domains: map[string]*policy.Chain{"edge": chain}})
	health := grpc_health_v1.NewHealthClient(r.conn)
	for _, name := range []string{"", "envoy.service.ratelimit.v3.RateLimitService",
		"envoy.service.auth.v3.Authorization"} {
		if resp, err := health.Check(within(t), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil ||
			resp.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("the health of %q is %v, %v", name, resp, err)
		}
	}
	watch, err := health.Watch(within(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error)
	go func() {
		_, err := r.rls.ShouldRateLimit(within(t),
			&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=a")})
		answered <- err
	}()
	<-judging
	stopped := make(chan error)
	go func() { stopped <- r.Stop(within(t)) }()
	for {
		if _, err := watch.Recv(); err != nil {
			break
		}
	}
	select {
	case err := <-stopped:
		t.Fatalf("the stop did not wait: %v", err)
	default:
	}
	close(free)
	if err := <-answered; err != nil {
		t.Errorf("what was under way was answered by %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := r.Stop(within(t)); err != nil {
		t.Error(err)
	}
	if err := r.Listen(); err == nil {
		t.Error("a gate that has stopped listens")
	}
}

// TestStopWithoutPatience: who does not end in time is cut off.
func TestStopWithoutPatience(t *testing.T) {
	o := edge("user")
	r := newRig(t, o, map[string]quota.Options{"plans": perMinute(1)})
	chain, judging, free := blocked(t)
	r.swap(o, Parts{Domains: map[string]*policy.Chain{"edge": chain}})
	answered := make(chan error)
	go func() {
		_, err := r.rls.ShouldRateLimit(within(t),
			&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=a")})
		answered <- err
	}()
	<-judging
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan error)
	go func() { stopped <- r.Stop(ctx) }()
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Errorf("who was cut off was told %v", err)
	}
	close(free)
	if err := <-stopped; err == nil {
		t.Error("nobody was told that requests were cut off")
	}
}

// TestNever: a gate that was never started ends, too.
func TestNever(t *testing.T) {
	g, err := New(Options{Listen: "127.0.0.1:0", Config: write(t, oneRule(1))}, Parts{Limit: newLimits(nil).limit},
		Env{})
	if err != nil {
		t.Fatal(err)
	}
	g.Start() // it does not listen
	if g.Addr() != nil {
		t.Error("it listens")
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
