package rlsgate

import (
	"context"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"weir/gate"
	"weir/internal/grpcserve"
)

// maxHeaderList is the most that is read of a call's headers. Envoy's tracing adds some to its own.
const maxHeaderList = 16 << 10

// The services whose health is told.
const (
	rateLimitService     = "envoy.service.ratelimit.v3.RateLimitService"
	authorizationService = "envoy.service.auth.v3.Authorization"
)

// A server is a gRPC server for the skeleton of gates. When it is replaced, callers are told to make other connections,
// and requests under way go on.
type server struct {
	*grpcserve.Server
	gate *Gate
}

func (g *Gate) newServer(o serverOptions) *server {
	return &server{gate: g, Server: grpcserve.New(grpcserve.Options{
		Methods: map[string]grpcserve.Method{
			rls.RateLimitService_ShouldRateLimit_FullMethodName: {Answer: g.answerRateLimit,
				Prompt: func() bool { return g.Setup.Load().promptRateLimit() }},
			auth.Authorization_Check_FullMethodName: {Answer: g.answerAuthz,
				Prompt: func() bool { return g.Setup.Load().promptAuthz() }},
		},
		Services: []string{"", rateLimitService, authorizationService},
		Message:  o.message, Streams: o.streams, HeaderList: maxHeaderList, Connect: o.connect, Silent: o.silent,
		Bounded:  g.env.Observer.Bounded,
		Panicked: func(what any) { g.Panicked(gate.ConnectionFailed, what) },
	})}
}

// Shutdown returns when the last request has been answered, or ctx has ended. Requests on connections that have been
// accepted are among them.
func (s *server) Shutdown(ctx context.Context) error {
	if s.gate.Stopping() { // the gate is no longer healthy; a server that is replaced still is
		s.StopHealth()
	}
	return s.Server.Shutdown(ctx)
}

// A question is a call of the rate limit service: what was asked, and what is answered. Questions are reused.
type question struct {
	asked asked
	reply reply
}

// answerRateLimit answers the rate limit service.
func (g *Gate) answerRateLimit(ctx context.Context, message, to []byte) ([]byte, error) {
	q := g.questions.Get().(*question)
	defer g.questions.Put(q)
	req, err := q.asked.read(message)
	if err != nil {
		return nil, malformed(err)
	}
	if err := g.rateLimit(ctx, req, &q.reply); err != nil {
		return nil, err
	}
	return q.reply.write(to)
}

// answerAuthz answers external authorization.
func (g *Gate) answerAuthz(ctx context.Context, message, to []byte) ([]byte, error) {
	var req auth.CheckRequest
	if err := proto.Unmarshal(message, &req); err != nil {
		return nil, malformed(err)
	}
	resp, err := g.authorize(ctx, &req)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(to, resp)
}

// malformed is the error of a message that cannot be read.
func malformed(err error) error {
	return status.Errorf(codes.Internal, "the message is malformed: %v", err)
}
