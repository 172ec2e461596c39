package rlsgate

import (
	"context"
	"math"
	"net"
	"runtime"
	"sync"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"weir/internal/doorway"
)

// maxHeaderList is the most that is read of a call's headers. Envoy's tracing adds some to its own.
const maxHeaderList = 16 << 10

// How much a caller may send before it is read: on a stream, where a message that is larger gets more, and on a
// connection. Were it left to gRPC to find out, nearly every request would come with a ping that asks how fast the line
// is.
const (
	streamWindow = 64 << 10
	connWindow   = 1 << 20
)

// oftenPing is how often a caller may ask whether the gate is there.
const oftenPing = 10 * time.Second

// A server is one gRPC server and the doorway that it gets its connections through.
type server struct {
	grpc    *grpc.Server
	health  *health.Server
	doorway *doorway.Doorway
	opts    serverOptions
	done    chan struct{} // closed when Serve has returned
}

// serve puts a new server in place. The old one, if any, takes no more connections: callers are told to make others,
// and requests under way go on. g.mu is held.
func (g *Gate) serve(o serverOptions) {
	next := &server{doorway: doorway.New(g.listener.Addr()), opts: o, done: make(chan struct{}),
		health: health.NewServer()}
	next.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(o.message),
		grpc.MaxSendMsgSize(math.MaxInt32), // what the gate says is bounded by what it was asked
		grpc.MaxConcurrentStreams(uint32(o.streams)),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(o.connect),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: o.silent, Timeout: o.silent}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: oftenPing, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(uint32(2*runtime.GOMAXPROCS(0))),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.StreamInterceptor(g.untilStop),
	)
	rls.RegisterRateLimitServiceServer(next.grpc, rateLimitServer{gate: g})
	auth.RegisterAuthorizationServer(next.grpc, authzServer{gate: g})
	healthpb.RegisterHealthServer(next.grpc, next.health)
	for _, name := range [...]string{"", rls.RateLimitService_ServiceDesc.ServiceName,
		auth.Authorization_ServiceDesc.ServiceName} {
		next.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	old := g.server.Swap(next)
	g.servers = append(g.servers, next)
	go func() {
		defer close(next.done)
		_ = next.grpc.Serve(next.doorway)
	}()
	if old != nil {
		go g.retire(old)
	}
}

// retire ends a server whose place another one has taken. Stop does the same at once.
func (g *Gate) retire(old *server) {
	_ = old.doorway.Close()
	old.grpc.GracefulStop()
	<-old.done
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, s := range g.servers {
		if s == old {
			g.servers = append(g.servers[:i:i], g.servers[i+1:]...)
			return
		}
	}
}

// end stops a server: as soon as the last request is answered, or when ctx ends.
func (s *server) end(ctx context.Context) error {
	s.health.Shutdown()
	graceful := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(graceful)
	}()
	select {
	case <-graceful:
		<-s.done
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-graceful
		<-s.done
		return ctx.Err()
	}
}

// untilStop ends streams when the gate stops: those who watch its health would else hold it up for ever.
func (g *Gate) untilStop(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		select {
		case <-g.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return handle(srv, &endingStream{stream, ctx})
}

// An endingStream is a stream with a context of its own.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endingStream) Context() context.Context { return s.ctx }

// receive lets a connection in. The one too many is closed at once, before anything is read from it.
func (g *Gate) receive(c net.Conn) {
	if g.open.Add(1) > int64(g.setup.Load().opts.Bounds.Connections) {
		g.open.Add(-1)
		g.env.Observer.Bounded(BoundConnections)
		_ = c.Close()
		return
	}
	g.hand(&conn{Conn: c, gate: g})
}

// hand gives a connection to the server of the hour. A closed doorway means that its successor is in place, or that the
// gate stops.
func (g *Gate) hand(c *conn) {
	for !g.server.Load().doorway.Hand(c) {
		if g.stopping() {
			_ = c.Close()
			return
		}
	}
}

// A conn is one that counts until it is closed.
type conn struct {
	net.Conn
	gate *Gate
	once sync.Once
}

// Close closes the connection and makes room for another one.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.gate.open.Add(-1) })
	return err
}
