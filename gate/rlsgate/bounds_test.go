package rlsgate

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir"
	"weir/policy"
	"weir/throttle/quota"
)

// refused asks what must be answered by an error.
func (r *rig) refused(req *rls.RateLimitRequest, code codes.Code) {
	r.t.Helper()
	_, err := r.rls.ShouldRateLimit(within(r.t), req)
	if status.Code(err) != code {
		r.t.Errorf("the error is %v, want %v", err, code)
	}
}

func (r *rig) bounded(bound string, times int) {
	r.t.Helper()
	if got := r.seen.count("bound " + bound); got != times {
		r.t.Errorf("%s was reached %d times, want %d", bound, got, times)
	}
}

func TestBoundsOfRequests(t *testing.T) {
	o := edge("user")
	o.Bounds = Bounds{Descriptors: 2, Entries: 2, Value: 5, Message: 1024, Overrides: 2}
	r := newRig(t, o, map[string]quota.Options{"plans": perMinute(100)})
	want(t, r.ask("edge", "user=a", "user=b"), "ok 100/minute 99 per-minute, ok 100/minute 99 per-minute")
	r.refused(&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=a", "user=b", "user=c")},
		codes.InvalidArgument)
	r.bounded(BoundDescriptors, 1)
	want(t, r.ask("edge", "user=a,x=y"), "ok 100/minute 98 per-minute")
	r.refused(&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=a,x=y,z=z")}, codes.InvalidArgument)
	r.bounded(BoundEntries, 1)
	want(t, r.ask("edge", "user=12345"), "ok 100/minute 99 per-minute")
	want(t, r.ask("edge", "user=123456", "user=a"), "over, ok 100/minute 97 per-minute")
	want(t, r.ask("edge", "user=a"), "ok 100/minute 97 per-minute") // the other took nothing
	r.bounded(BoundValue, 1)
	r.refused(&rls.RateLimitRequest{Domain: strings.Repeat("x", 1100), Descriptors: descriptors("user=a")},
		codes.ResourceExhausted)
	want(t, r.ask("edge", "user=o limit=1/hour", "user=o limit=2/hour"), "ok 1/hour 0, ok 2/hour 0")
	r.refused(&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=o limit=3/hour")},
		codes.ResourceExhausted)
	r.bounded(BoundOverrides, 1)
	want(t, r.ask("edge", "user=p limit=2/hour"), "ok 2/hour 1")
	r.refused(&rls.RateLimitRequest{Descriptors: descriptors("user=a")}, codes.InvalidArgument)
	r.refused(&rls.RateLimitRequest{Domain: "edge"}, codes.InvalidArgument)
	odd := &common.RateLimitDescriptor{Limit: &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1,
		Unit: types.RateLimitUnit(99)}}
	r.refused(&rls.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{odd}},
		codes.InvalidArgument)
	want(t, r.ask("edge", "user=a"), "ok 100/minute 96 per-minute") // on the same connection as all that
}

func TestBoundConnections(t *testing.T) {
	o := edge("user")
	o.Bounds.Connections = 1
	r := newRig(t, o, map[string]quota.Options{"plans": perMinute(100)})
	want(t, r.ask("edge", "user=a"), "ok 100/minute 99 per-minute")
	c, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("the connection too many was told %d bytes", n)
	}
	r.bounded(BoundConnections, 1)
	_ = r.conn.Close()
	next := rls.NewRateLimitServiceClient(r.dial())
	if _, err := next.ShouldRateLimit(within(t),
		&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=a")},
		grpc.WaitForReady(true)); err != nil {
		t.Errorf("there is no room after a connection was closed: %v", err)
	}
}

// blocked is a chain whose throttle does not answer before it is let go.
func blocked(t *testing.T) (chain *policy.Chain, judging chan struct{}, free chan struct{}) {
	judging, free = make(chan struct{}, 10), make(chan struct{})
	chain = newChain(t, policy.NewLink("slow",
		spy{judge: func(*weir.Event, *weir.Answer) { judging <- struct{}{}; <-free }}, policy.Closed))
	return chain, judging, free
}

func TestBoundRequests(t *testing.T) {
	o := edge("user")
	o.Bounds.Requests = 1
	r := newRig(t, o, map[string]quota.Options{"plans": perMinute(100)})
	chain, judging, free := blocked(t)
	r.swap(o, Parts{Domains: map[string]*policy.Chain{"edge": chain}})
	done := make(chan error)
	go func() {
		_, err := r.rls.ShouldRateLimit(within(t),
			&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=a")})
		done <- err
	}()
	<-judging
	r.refused(&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=b")}, codes.ResourceExhausted)
	r.bounded(BoundRequests, 1)
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(t, r.ask("edge", "user=b"), "ok")
}

// TestMalformed: bytes that are no request cost nobody else anything.
func TestMalformed(t *testing.T) {
	r := newRig(t, edge("user"), map[string]quota.Options{"plans": perMinute(100)})
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x16\x03\x01\x00\x05hello"} {
		c, err := net.Dial("tcp", r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = c.Write([]byte(garbage))
		_ = c.(*net.TCPConn).CloseWrite()
		for buf := make([]byte, 512); ; {
			if _, err := c.Read(buf); err != nil {
				break
			}
		}
		_ = c.Close()
	}
	err := r.conn.Invoke(within(t), rls.RateLimitService_ShouldRateLimit_FullMethodName, raw("\xff\xff\xff"), &raw2{},
		grpc.ForceCodec(rawCodec{}))
	if status.Code(err) == codes.OK {
		t.Error("bytes that are no message were answered")
	}
	want(t, r.ask("edge", "user=a"), "ok 100/minute 99 per-minute")
}

// raw is a message as it goes over the wire.
type (
	raw      string
	raw2     struct{}
	rawCodec struct{}
)

func (rawCodec) Marshal(v any) ([]byte, error) { return []byte(v.(raw)), nil }
func (rawCodec) Unmarshal([]byte, any) error   { return nil }
func (rawCodec) Name() string                  { return "proto" }

// TestDeadline: a call whose time is over is charged to nobody.
func TestDeadline(t *testing.T) {
	r := newRig(t, edge("user"), map[string]quota.Options{"plans": perMinute(1)})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := r.rateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=a")}, new(reply))
	if status.Code(err) != codes.Canceled {
		t.Errorf("the error is %v", err)
	}
	want(t, r.ask("edge", "user=a"), "ok 1/minute 0 per-minute")
	if got := r.seen.count("ratelimit left"); got != 1 {
		t.Errorf("%d calls were counted as left, want 1", got)
	}
}
