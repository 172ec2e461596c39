package app_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir"
	"weir/app"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

// dodges are ways to write /login that some server reads so.
var dodges = []string{
	"/login", "/login/", "/LOGIN", "/login;x=1", "/login;", "/public/..;/login", "/;/login", "/login%3bx=1",
	"/login%253bx", "//login", "//host/login", "/public/../login", "/public/%2e%2e/login",
	"/public/.%2e;a=b/login", "/public%2f..%2flogin", "/%2flogin", "/%252flogin", "/public/%252e%252e/login",
	"/%6cogin", "/%256cogin", "/login%A0", "/login%c2%a0", "/login%85/", "/login%e2%80%83",
	"/public%5c..%5clogin", `/public\..\login`, "/login%00.png", "/login%3fx",
	"/login%23x", "/login#x", "/login.", "/login%20", "/login%0a", "/%c0%aflogin", "/public/%c0%ae%c0%ae/login",
	"/../login", "/%2e%2e/app/login", "/a;b/c%2fd//e/./f%3bg%5ch/../login",
	"/" + strings.Repeat("x/..;/", 200) + "login",
}

// bystanders are paths that the rule for /login is not about.
var bystanders = []string{
	"/", "/login2", "/shop", "/shop;jsessionid=1", "/public", "/a/login", "/login/help", "/k%C3%A4se%20x", "/@ann",
	"/a+b:c=d,e", "/wiki/AC%2FDC",
}

// A crossing is a weir with every gate that knows paths. One limit of three holds for /login at all of them.
type crossing struct {
	t     *testing.T
	app   *app.App
	h2    http.RoundTripper
	envoy *grpc.ClientConn
}

func newCrossing(t *testing.T) *crossing {
	t.Helper()
	folder := t.TempDir()
	roots := certificate(t, folder)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.RequestURI)
	}))
	t.Cleanup(server.Close)
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %[1]s/data
http:
- {listen: "127.0.0.1:0", upstream: %[2]s, account: ["header:X-Api-Key"], throttles: [plans]}
- listen: 127.0.0.1:0
  upstream: %[2]s/app
  tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}
  account: ["header:X-Api-Key"]
  throttles: [plans]
auth: [{listen: "127.0.0.1:0", account: ["header:X-Api-Key"], throttles: [plans]}]
rls:
- listen: 127.0.0.1:0
  domains: {edge: {account: [user], throttles: [plans]}}
  authz: {account: ["header:X-Api-Key"], throttles: [plans]}
api: {listen: "127.0.0.1:0", tokens: [sesame-sesame-sesame], policies: {web: [plans]}}
throttles:
  plans: {quota: {policies: [
    {name: logins, limit: 3, period: 1h, match: {paths: [/login]}},
    {name: deletions, limit: 3, period: 1h, match: {methods: [DELETE]}}]}}
console: {listen: "off"}
`, folder, server.URL)))
	if err != nil {
		t.Fatal(err)
	}
	c := &crossing{t: t}
	if c.app, err = app.New(cfg, app.Options{Clock: clock.NewFake(noon), HashMemory: 8}); err != nil {
		t.Fatal(err)
	}
	if err := c.app.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "shop.example"}}
	c.h2 = transport
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	if c.envoy, err = grpc.NewClient(c.app.Addr("rls", 0).String(), plain); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.envoy.Close()
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.app.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// An entrance asks one gate about a request, and returns the status that its client gets.
type entrance func(account, method, path string, headers ...string) int

func (c *crossing) ways() map[string]entrance {
	return map[string]entrance{
		"HTTP/1": c.http1,
		"HTTP/1 absolute": func(account, method, path string, headers ...string) int {
			return c.http1(account, method, "http://api.example.com"+path, headers...)
		},
		"HTTP/2": c.http2,
		"nginx": func(account, method, path string, headers ...string) int {
			got := c.forwardAuth(account, append(headers,
				"X-Original-Uri", path, "X-Original-Method", method, "X-Real-Ip", "192.0.2.1")...)
			if got == http.StatusForbidden { // nginx understands no other refusal
				return http.StatusTooManyRequests
			}
			return got
		},
		"traefik": func(account, method, path string, headers ...string) int {
			return c.forwardAuth(account, append(headers,
				"X-Forwarded-Uri", path, "X-Forwarded-Method", method, "X-Forwarded-For", "192.0.2.1")...)
		},
		"ext_authz": c.authz,
		"descriptor": func(account, method, path string, _ ...string) int {
			return c.descriptor(account, method, path)
		},
		"API": func(account, method, path string, _ ...string) int {
			return c.decide(account, map[string]string{"method": method, "host": "api.example.com", "path": path})
		},
		"API, text": func(account, method, path string, _ ...string) int {
			return c.decide(account, method+" api.example.com"+path)
		},
	}
}

func (c *crossing) http1(account, method, target string, headers ...string) int {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.app.Addr("http", 0).String())
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: api.example.com\r\nX-Api-Key: %s\r\n", method, target, account)
	for i := 0; i < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		c.t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.StatusCode
}

func (c *crossing) http2(account, method, path string, headers ...string) int {
	c.t.Helper()
	q := &http.Request{Method: method, Header: http.Header{},
		URL: &url.URL{Scheme: "https", Host: c.app.Addr("http", 1).String(), Opaque: path}}
	q.Header.Set("X-Api-Key", account)
	if strings.HasPrefix(path, "//") { // as an opaque URL it would begin with a host
		q.URL.Opaque, q.URL.Path = "", path
	}
	return c.do(c.h2, q, headers...)
}

func (c *crossing) forwardAuth(account string, headers ...string) int {
	c.t.Helper()
	q, err := http.NewRequest(http.MethodGet, "http://"+c.app.Addr("auth", 0).String()+"/", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", account)
	return c.do(http.DefaultTransport, q, headers...)
}

func (c *crossing) do(by http.RoundTripper, q *http.Request, headers ...string) int {
	c.t.Helper()
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	r, err := by.RoundTrip(q)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	slurp(c.t, r.Body)
	return r.StatusCode
}

func (c *crossing) authz(account, method, path string, headers ...string) int {
	c.t.Helper()
	h := &auth.AttributeContext_HttpRequest{Method: method, Host: "api.example.com", Path: path,
		Headers: map[string]string{"x-api-key": account}}
	for i := 0; i < len(headers); i += 2 {
		h.Headers[strings.ToLower(headers[i])] = headers[i+1]
	}
	socket := &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: "192.0.2.1"}}
	ask := &auth.CheckRequest{Attributes: &auth.AttributeContext{
		Request: &auth.AttributeContext_Request{Http: h},
		Source:  &auth.AttributeContext_Peer{Address: &core.Address{Address: socket}}}}
	r, err := auth.NewAuthorizationClient(c.envoy).Check(c.t.Context(), ask)
	if err != nil {
		c.t.Fatal(err)
	}
	if denied := r.GetDeniedResponse(); denied != nil {
		return int(denied.GetStatus().GetCode())
	}
	return http.StatusOK
}

func (c *crossing) descriptor(account, method, path string) int {
	c.t.Helper()
	ask := &rls.RateLimitRequest{Domain: "edge",
		Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{
			{Key: "user", Value: account}, {Key: "method", Value: method}, {Key: "path", Value: path}}}}}
	r, err := rls.NewRateLimitServiceClient(c.envoy).ShouldRateLimit(c.t.Context(), ask)
	if err != nil {
		c.t.Fatal(err)
	}
	if r.OverallCode == rls.RateLimitResponse_OVER_LIMIT {
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

func (c *crossing) decide(account string, route any) int {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"policy": "web", "account": account, "route": route})
	if err != nil {
		c.t.Fatal(err)
	}
	target := "http://" + c.app.Addr("api", 0).String() + "/v1/decide"
	q, err := http.NewRequest(http.MethodPost, target, strings.NewReader(string(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer sesame-sesame-sesame")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	var d struct{ Verdict weir.Verdict }
	if text := slurp(c.t, r.Body); json.Unmarshal([]byte(text), &d) != nil {
		c.t.Fatal(text)
	}
	if d.Verdict == weir.Refuse {
		return http.StatusTooManyRequests
	}
	return r.StatusCode
}

// TestNoSpellingDodgesALimit: at every gate, all spellings of a path have one limit together, and nobody else
// notices.
func TestNoSpellingDodgesALimit(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	c := newCrossing(t)
	control := console.NewClient(c.app.ControlPath())
	for gate, ask := range c.ways() {
		for i, path := range dodges {
			account := fmt.Sprint(gate, i)
			for range 3 {
				if got := ask(account, "GET", path); got != http.StatusOK {
					t.Errorf("%s: %.60s is within its limit, and answered %d", gate, path, got)
				}
			}
			if got := ask(account, "GET", path); got != http.StatusTooManyRequests {
				t.Errorf("%s: %.60s is beyond its limit, and answered %d", gate, path, got)
			}
			if got := ask(account, "GET", "/login"); got != http.StatusTooManyRequests {
				t.Errorf("%s: %.60s has a limit of its own: %d", gate, path, got)
			}
			why, err := console.WhyAskCall.Ask(t.Context(), control, console.Question{
				Gate: c.app.Addr("http", 0).String(), Method: "GET", Path: path, Account: account})
			if err != nil || why.Verdict != weir.Refuse {
				t.Errorf("why %.60s: %+v, %v", path, why, err)
			}
		}
		account := fmt.Sprint(gate, 0) // its limit for /login is used up
		for _, path := range bystanders {
			if got := ask(account, "GET", path); got != http.StatusOK {
				t.Errorf("%s: %s is answered %d", gate, path, got)
			}
		}
	}
}

// TestNoHeaderDodgesALimit: nor do headers by which servers let clients override the path and the method.
func TestNoHeaderDodgesALimit(t *testing.T) {
	t.Parallel()
	c := newCrossing(t)
	ways := c.ways()
	for _, gate := range []string{"HTTP/1", "HTTP/2", "traefik", "ext_authz"} {
		ask := ways[gate]
		for i, header := range [][]string{
			{"X-Original-Url", "/login"}, {"X-Rewrite-Url", "/public/..;/login?x"},
			{"X-Http-Method-Override", "DELETE"},
			{"X-Http-Method", "delete"}, {"X-Method-Override", "DELETE"},
		} {
			account := fmt.Sprint(gate, i)
			for n, want := range []int{200, 200, 200, 429} {
				if got := ask(account, "POST", "/public", header...); got != want {
					t.Errorf("%s, %q, request %d: %d, want %d", gate, header, n+1, got, want)
				}
			}
			if got := ask(account, "POST", "/public"); got != http.StatusOK {
				t.Errorf("%s: without %q it is %d", gate, header, got)
			}
		}
		account := gate + " lower case"
		for range 3 {
			ask(account, "delete", "/public")
		}
		if got := ask(account, "DELETE", "/public"); got != http.StatusTooManyRequests {
			t.Errorf("%s: a method in lower case dodges the limit: %d", gate, got)
		}
	}
}
