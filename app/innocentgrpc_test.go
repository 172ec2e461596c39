package app_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A callee is a gRPC service that keeps what it is told beside each call.
type callee struct {
	addr string

	mu    sync.Mutex
	calls []metadata.MD
}

func startCallee(t *testing.T) *callee {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &callee{addr: l.Addr().String()}
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		c.mu.Lock()
		c.calls = append(c.calls, md)
		c.mu.Unlock()
		return handler(ctx, in)
	}))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return c
}

// take returns what came since it was last called.
func (c *callee) take() []metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.calls
	c.calls = nil
	return taken
}

// dial is a connection of a gRPC client. It ends with the test.
func dial(t *testing.T, addr string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	// No environment of the machine has a say, and nothing is tried twice.
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(),
		grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestInnocentGRPC: gRPC clients that name their account in the metadata get through the HTTP gate to a gRPC service,
// up to their limit.
func TestInnocentGRPC(t *testing.T) {
	t.Parallel()
	c := startCallee(t)
	throttles := `  calls: {quota: {policies: [{name: few, limit: ` + fmt.Sprint(few) +
		`, period: 1h}], on_missing: refuse}}` + "\n"
	var gates []string
	for _, place := range []string{"header:X-Api-Key", "bearer"} {
		gate := fmt.Sprintf("upstream: \"h2c://%s\", account: [%q], throttles: [calls]", c.addr, place)
		gates = append(gates, gate, gate+", TLS")
	}
	s := openShop(t, gates, throttles)
	for i, place := range []struct{ key, before string }{{"x-api-key", ""}, {"authorization", "Bearer "}} {
		for k, secure := range []bool{false, true} {
			t.Run(place.key+"/"+overWhat(secure), func(t *testing.T) {
				creds := insecure.NewCredentials()
				if secure {
					creds = credentials.NewClientTLSFromCert(s.roots, "")
				}
				client := grpc_health_v1.NewHealthClient(dial(t, s.app.Addr("http", 2*i+k).String(), creds))
				account := place.key + "/" + overWhat(secure) + "=="
				call := func(account string) error {
					// A list of two, and bytes that gRPC writes as base64.
					ctx := metadata.AppendToOutgoingContext(within(t), place.key, place.before+account,
						"x-list", "a, b", "x-list", "c=d;e", "x-trace-bin", "\x00\xff")
					r, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
					if err == nil && r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
						t.Errorf("it answered %v", r)
					}
					return err
				}
				c.take()
				for n := range few {
					if err := call(account); err != nil {
						t.Fatalf("call %d: %v", n+1, err)
					}
					got := c.take()
					if len(got) != 1 {
						t.Fatalf("%d calls came", len(got))
					}
					for key, want := range map[string][]string{place.key: {place.before + account},
						"x-list": {"a, b", "c=d;e"}, "x-trace-bin": {"\x00\xff"},
						"content-type": {"application/grpc"}} {
						if have := got[0].Get(key); !slices.Equal(have, want) {
							t.Errorf("the service got %s: %q, want %q", key, have, want)
						}
					}
					if left := s.left(t, account); left != few-int64(n)-1 {
						t.Errorf("after call %d the account has %d left", n+1, left)
					}
				}
				// It is told in gRPC's own words, so that it does not try again at once.
				if err := call(account); status.Code(err) != codes.ResourceExhausted ||
					!strings.Contains(err.Error(), "limit of 2") || len(c.take()) > 0 {
					t.Errorf("one more: %v", err)
				}
				if err := call(account + "2"); err != nil {
					t.Errorf("another account: %v", err)
				}
			})
		}
	}
}

// A question is a request that somebody asks about: its target, and one header line beside the usual ones.
type question struct{ path, name, value string }

// asked names an account in a place, among what is like it.
func asked(place, account string) question {
	switch place {
	case "bearer":
		return question{"/app/list", "authorization", "Bearer " + account}
	case "query":
		return question{"/app/list?q=%C3%BC&keys=1&back=/x?key=other&empty=&key=" + url.QueryEscape(account), "x-other",
			"key=1"}
	case "cookie":
		return question{"/app/list", "cookie", `a="x, y"; b={"c":[1,2]}; session=` + account + `; sessions=1`}
	}
	return question{"/app/list?q=a;b&key=1&key=2", "x-api-key", account}
}

// TestInnocentEnvoy: Envoy asks about requests that name their account once, in each of the ways in which it tells of
// headers.
func TestInnocentEnvoy(t *testing.T) {
	t.Parallel()
	var more strings.Builder
	more.WriteString("rls:\n")
	for i, p := range places {
		fmt.Fprintf(&more, "- {listen: \"127.0.0.1:0\", authz: {account: [%q], throttles: [%s]}", p.account, p.throttle)
		if i == 0 {
			more.WriteString(", domains: {shop: {throttles: [calls], account: [key]}}")
		}
		more.WriteString("}\n")
	}
	calls := fmt.Sprintf("  calls: {quota: {policies: [{name: few, limit: %d, period: 1h}], on_missing: refuse}}\n",
		few)
	s := openShop(t, nil, calls+more.String())

	t.Run("rate limit service", func(t *testing.T) {
		client := rls.NewRateLimitServiceClient(dial(t, s.app.Addr("rls", 0).String(), insecure.NewCredentials()))
		ask := func(account string) rls.RateLimitResponse_Code {
			t.Helper()
			r, err := client.ShouldRateLimit(within(t),
				&rls.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{
					Entries: []*common.RateLimitDescriptor_Entry{{Key: "path", Value: "/app/ü?key=other"},
						{Key: "key", Value: account},
						{Key: "keys", Value: "other"}}}}})
			if err != nil {
				t.Fatal(err)
			}
			return r.OverallCode
		}
		for i := range few {
			if code := ask("rls/=="); code != rls.RateLimitResponse_OK || s.left(t, "rls/==") != few-int64(i)-1 {
				t.Errorf("request %d: %s, %d are left", i+1, code, s.left(t, "rls/=="))
			}
		}
		if code := ask("rls/=="); code != rls.RateLimitResponse_OVER_LIMIT {
			t.Errorf("one more: %s", code)
		}
		if code := ask("rls/==2"); code != rls.RateLimitResponse_OK {
			t.Errorf("another account: %s", code)
		}
	})

	for i, p := range places {
		client := auth.NewAuthorizationClient(dial(t, s.app.Addr("rls", i).String(), insecure.NewCredentials()))
		for _, encoding := range []string{"headers", "header_map", "raw header_map"} {
			t.Run("ext_authz/"+p.name+"/"+encoding, func(t *testing.T) {
				ask := func(account string) uint32 {
					t.Helper()
					r := asked(p.name, account)
					h := &auth.AttributeContext_HttpRequest{Id: "1", Method: "GET", Host: "shop.example", Path: r.path,
						Protocol: "HTTP/1.1", Scheme: "https"}
					for _, line := range [][2]string{{":method", "GET"}, {":path", r.path},
						{"user-agent", "odd, agent; ü"}, {r.name, r.value}} {
						value := &core.HeaderValue{Key: line[0]}
						switch encoding {
						case "headers":
							if h.Headers == nil {
								h.Headers = map[string]string{}
							}
							h.Headers[line[0]] = line[1]
							continue
						case "header_map":
							value.Value = line[1]
						default:
							value.RawValue = []byte(line[1])
						}
						if h.HeaderMap == nil {
							h.HeaderMap = &core.HeaderMap{}
						}
						h.HeaderMap.Headers = append(h.HeaderMap.Headers, value)
					}
					socket := &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: "192.0.2.1"}}
					source := &core.Address{Address: socket}
					resp, err := client.Check(within(t), &auth.CheckRequest{Attributes: &auth.AttributeContext{
						Source:  &auth.AttributeContext_Peer{Address: source},
						Request: &auth.AttributeContext_Request{Http: h}}})
					if err != nil {
						t.Fatal(err)
					}
					if codes.Code(resp.GetStatus().GetCode()) == codes.OK {
						return http.StatusOK
					}
					return uint32(resp.GetDeniedResponse().GetStatus().GetCode())
				}
				account := strings.ReplaceAll(p.name+"/"+encoding, " ", "-") + "=="
				for n := range few {
					if status := ask(account); status != http.StatusOK || s.left(t, account) != few-int64(n)-1 {
						t.Fatalf("request %d: %d, %d are left", n+1, status, s.left(t, account))
					}
				}
				if status := ask(account); status != http.StatusTooManyRequests {
					t.Errorf("one more: %d", status)
				}
				if status := ask(account + "2"); status != http.StatusOK {
					t.Errorf("another account: %d", status)
				}
			})
		}
	}
}
