package rlsgate

import (
	"context"
	"math"
	"net"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// maxHeaderList is the most that is read of a call's headers. Envoy's tracing adds some to its own.
const maxHeaderList = 16 << 10

// How much a caller may send before it is read: on a stream, where a larger message gets more, and on a connection. If
// gRPC were to find these out, nearly every request would come with a ping that measures the line.
const (
	streamWindow = 64 << 10
	connWindow   = 1 << 20
)

// oftenPing is how often a caller may ask whether the gate is there.
const oftenPing = 10 * time.Second

// workers answer requests one after the other: a new goroutine for each would have to grow its stack every time, which
// is a tenth of what a request costs. Some of them wait for the engine of a farm. Where all are busy, more are made.
const workers = 64

// A server is a gRPC server for the skeleton of gates. When it is replaced, callers are told to make other connections,
// and requests under way go on.
type server struct {
	*grpc.Server
	gate     *Gate
	health   *health.Server
	arrivals arrivals
}

func (g *Gate) newServer(o serverOptions) *server {
	s := &server{gate: g, health: health.NewServer(), Server: grpc.NewServer(
		grpc.Creds(newArrivalCredentials()),
		grpc.MaxRecvMsgSize(o.message),
		grpc.MaxSendMsgSize(math.MaxInt32), // what the gate says is bounded by what it was asked
		grpc.MaxConcurrentStreams(uint32(o.streams)),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(o.connect),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: o.silent, Timeout: o.silent}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: oftenPing, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(workers),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.StreamInterceptor(g.untilStop),
	)}
	rls.RegisterRateLimitServiceServer(s, rateLimitServer{gate: g})
	auth.RegisterAuthorizationServer(s, authzServer{gate: g})
	healthpb.RegisterHealthServer(s, s.health)
	for _, name := range [...]string{"", rls.RateLimitService_ServiceDesc.ServiceName,
		auth.Authorization_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	return s
}

// Serve serves the connections of a listener until that is closed.
func (s *server) Serve(l net.Listener) error { return s.arrivals.serve(l, s.Server.Serve) }

// Shutdown returns when the last request has been answered, or ctx has ended. Requests on connections that have been
// accepted are among them.
func (s *server) Shutdown(ctx context.Context) error {
	if s.gate.Stopping() { // the gate is no longer healthy; a server that is replaced still is
		s.health.Shutdown()
	}
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.arrivals.end()
		s.GracefulStop()
	}()
	select {
	case <-graceful:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close cuts off what is under way.
func (s *server) Close() error {
	s.Stop()
	return nil
}

// untilStop ends streams when the gate stops. Callers that watch its health would otherwise hold up the stop.
func (g *Gate) untilStop(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(g.Serving, cancel)()
	return handle(srv, &endingStream{stream, ctx})
}

// An endingStream is a stream with a context of its own.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endingStream) Context() context.Context { return s.ctx }
