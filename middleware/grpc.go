package middleware

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"weir"
	"weir/gate/refusal"
)

// Unary is a grpc.UnaryServerInterceptor. A call is a POST to its full method, as on the wire. A refusal is the code
// that an HTTP gate would send, ResourceExhausted for a limit, with RetryInfo among its details.
func (l *Limiter) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any,
	err error) {
	told := func(header, trailer metadata.MD) {
		_ = grpc.SetHeader(ctx, header) // fails only where there is no stream to tell
		_ = grpc.SetTrailer(ctx, trailer)
	}
	err = l.call(ctx, info.FullMethod, told, func() (err error) {
		res, err = next(ctx, req)
		return err
	})
	return res, err
}

// Stream is a grpc.StreamServerInterceptor. A stream counts as one request, however many messages it has, and is under
// way until its handler returns.
func (l *Limiter) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	told := func(header, trailer metadata.MD) {
		_ = ss.SetHeader(header) // fails only if it has been sent
		ss.SetTrailer(trailer)
	}
	return l.call(ss.Context(), info.FullMethod, told, func() error { return next(srv, ss) })
}

// call takes one call through the throttles. told sends headers and trailers to the client.
func (l *Limiter) call(ctx context.Context, method string, told func(header, trailer metadata.MD),
	next func() error) error {
	v := l.visits.Get().(*visit)
	err := l.through(ctx, v, method, told, next)
	l.recycle(v) // unless something panicked
	return err
}

// through is call with a visit.
func (l *Limiter) through(ctx context.Context, v *visit, method string, told func(header, trailer metadata.MD),
	next func() error) error {
	r, from := requestOf(ctx, method)
	if err := l.identify(ctx, r, from, v); err != nil {
		doc := misfit(v, err)
		return status.FromProto(doc.GRPCStatus()).Err()
	}
	if gone := l.judge(ctx, v); gone != nil {
		return status.FromContextError(gone).Err()
	}
	now := l.clock.Now()
	header, trailer := metadata.MD{}, metadata.MD{}
	if policy, limit := refusal.Fields(v.pass.Answer.Figures, now); policy != "" {
		header["ratelimit-policy"], header["ratelimit"] = []string{policy}, []string{limit}
	}
	if v.pass.Answer.Verdict != weir.Admit {
		doc := l.refusal(v, now)
		if doc.RetryAfter > 0 {
			header["retry-after"] = []string{strconv.FormatInt(doc.RetryAfter, 10)}
			trailer["grpc-retry-pushback-ms"] = []string{doc.Pushback()}
		}
		told(header, trailer)
		return status.FromProto(doc.GRPCStatus()).Err()
	}
	told(header, trailer)
	outcome := http.StatusInternalServerError // of a handler that panics
	defer func() {
		v.pass.Settle(weir.Outcome{Time: l.clock.Now(), Done: true, Status: outcome})
	}()
	err := next()
	outcome = statusOf(status.Code(err))
	return err
}

// requestOf is a call as a request of HTTP, and the address that it came from.
func requestOf(ctx context.Context, method string) (r *http.Request, from netip.Addr) {
	r = &http.Request{Method: http.MethodPost, URL: &url.URL{Path: method}, Header: http.Header{}, ProtoMajor: 2}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		if name == ":authority" {
			r.Host = strings.Join(values, "") // there is one
			continue
		}
		name = http.CanonicalHeaderKey(name)
		r.Header[name] = append(r.Header[name], values...)
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return r, from
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		from = tcp.AddrPort().Addr()
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		r.TLS = &info.State
	}
	return r, from
}

// statusOf is the status of HTTP for what a handler returned. Throttles learn from it whether the program knows the
// account.
func statusOf(code codes.Code) int {
	switch code {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
