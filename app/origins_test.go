package app

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir"
	"weir/console"
	"weir/identify"
	"weir/internal/testkit/needs"
)

// behindProxies has the gates that take a proxy's word for where a request came from. Lists free the proxy and a
// partner, as they should not: the proxy is this machine.
const behindProxies = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, trusted_proxies: [127.0.0.1/32, 10.0.0.0/8], forwarded_header: HEADER, throttles: [few]}
- {listen: "127.0.0.1:0", upstream: UPSTREAM, trusted_proxies: [127.0.0.1/32, 10.0.0.0/8], forwarded_header: HEADER, throttles: [stamps]}
- {listen: "127.0.0.1:0", upstream: UPSTREAM, trusted_proxies: [127.0.0.1/32, 10.0.0.0/8], forwarded_header: HEADER, account: [source], throttles: [plans]}
auth:
- {listen: "127.0.0.1:0", trusted_proxies: [127.0.0.1/32, 10.0.0.0/8], throttles: [few]}
rls:
- {listen: "127.0.0.1:0", authz: {trusted_proxies: [127.0.0.1/32, 10.0.0.0/8], forwarded_header: HEADER, throttles: [few]}}
bans: {exempt: [127.0.0.1/32, 10.0.0.0/8, 198.51.100.0/24]}
throttles:
  few: {bloom: {rate: 2/s, burst: 5, exempt: [127.0.0.1/32, 10.0.0.0/8, 198.51.100.0/24]}}
  stamps: {stamp: {from_load: 0, first: 64, never_ask: {networks: [127.0.0.1/32, 10.0.0.0/8, 198.51.100.0/24]}}}
  plans: {quota: {policies: [{name: few, limit: 2, period: 1h}], overrides: {"source:127.0.0.1": {few: {exempt: true}}, "source:198.51.100.1": {few: {exempt: true}}}}}
console: {listen: "off"}
`

// An asker sends a request with lines of forwarding headers, as the proxy in front of a gate does, and reports the
// status.
type asker func(lines []string) int

// askers are the ways into the gates, by name.
func (b *bench) askers() map[string]asker {
	conn, err := grpc.NewClient(b.Addr("rls", 0).String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	b.t.Cleanup(h2.CloseIdleConnections)
	return map[string]asker{
		"limits over HTTP/1": func(lines []string) int { return b.raw(b.Addr("http", 0), "Host: a", lines) },
		"limits over HTTP/2": func(lines []string) int {
			req, err := http.NewRequestWithContext(b.t.Context(), "GET", "http://"+b.Addr("http", 0).String()+"/", nil)
			if err != nil {
				b.t.Fatal(err)
			}
			for _, line := range lines {
				name, value, _ := strings.Cut(line, ":")
				req.Header.Add(name, strings.TrimSpace(value))
			}
			resp, err := h2.RoundTrip(req)
			if err != nil {
				b.t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		},
		"stamps": func(lines []string) int { return b.raw(b.Addr("http", 1), "Host: a", lines) },
		"plans":  func(lines []string) int { return b.raw(b.Addr("http", 2), "Host: a", lines) },
		"forward-auth": func(lines []string) int {
			return b.raw(b.Addr("auth", 0),
				"Host: a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\nX-Forwarded-Host: a", lines)
		},
		"ext_authz": func(lines []string) int {
			h := &auth.AttributeContext_HttpRequest{Method: "GET", Host: "a", Path: "/", Headers: map[string]string{}}
			for _, line := range lines {
				name, value, _ := strings.Cut(line, ":")
				name, value = strings.ToLower(name), strings.TrimSpace(value)
				if before, twice := h.Headers[name]; twice { // as Envoy joins them
					value = before + "," + value
				}
				h.Headers[name] = value
			}
			address := &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: "127.0.0.1"}}
			peer := &auth.AttributeContext_Peer{Address: &core.Address{Address: address}}
			ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
			defer cancel()
			r, err := auth.NewAuthorizationClient(conn).Check(ctx,
				&auth.CheckRequest{Attributes: &auth.AttributeContext{
					Request: &auth.AttributeContext_Request{Http: h}, Source: peer}})
			if err != nil {
				b.t.Fatal(err)
			}
			if denied := r.GetDeniedResponse(); denied != nil {
				return int(denied.Status.Code)
			}
			return 200
		},
	}
}

// raw sends a request with these lines as they are.
func (b *bench) raw(to net.Addr, head string, lines []string) int {
	b.t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\n%s\r\nConnection: close\r\n%s\r\n", head,
		strings.Join(append(lines, ""), "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// additions are what a client adds to its request to look like somebody else.
var additions = [][]string{
	nil,
	{"Forwarded: for=127.0.0.1"},
	{"Forwarded: for=198.51.100.1"},
	{"Forwarded: for=10.0.0.1"},
	{"fORWARDED: FOR=192.0.2.200;proto=https", "Forwarded: for=unknown"},
	{"Forwarded:"},
	{`Forwarded: for="`},
	{`Forwarded: "`, `Forwarded: for="198.51.100.1`},
	{"Forwarded: " + strings.Repeat("for=10.0.0.1, ", 33) + "for=10.0.0.1"},
	{"X-Forwarded-For: 127.0.0.1"},
	{"X-Forwarded-For: 198.51.100.1"},
	{"X-Forwarded-For: garbage", "Forwarded: garbage"},
	{"X-Forwarded-For:"},
	{"X-Forwarded-For: " + strings.Repeat("10.0.0.1, ", 33) + "10.0.0.1"},
	{"X_Forwarded_For: 198.51.100.1", "X-Real-IP: 198.51.100.1"},
}

// appended is what reaches the gate: what the client added, and in the header that the proxy maintains, on a line of
// its own or behind the client's last one, the client's address.
func appended(maintained identify.Header, added []string, client string, joined bool) (lines []string) {
	name, element := "X-Forwarded-For", client
	if maintained == identify.ForwardedHeader {
		name, element = "Forwarded", "for="+client
	}
	last := -1
	for i, line := range added {
		if key, _, _ := strings.Cut(line, ":"); strings.EqualFold(key, name) {
			last = i
		}
		lines = append(lines, line)
	}
	if joined && last >= 0 {
		lines[last] += ", " + element
		return lines
	}
	return append(lines, name+": "+element)
}

// TestNothingAddedHelps: over every gate that reads forwarding headers, a client behind a proxy that appends its
// address is refused when it is banned, and limited, whatever it adds to the request; nobody else is.
func TestNothingAddedHelps(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for _, maintained := range []identify.Header{identify.XForwardedFor, identify.ForwardedHeader} {
		t.Run(string(maintained), func(t *testing.T) {
			b := start(t, strings.ReplaceAll(behindProxies, "HEADER", string(maintained)))
			b.ban(console.BanOrder{Who: "203.0.113.0/24"})
			network := 0 // of an asker's clients
			for name, ask := range b.askers() {
				network++
				if name == "forward-auth" && maintained == identify.ForwardedHeader {
					continue // it reads X-Forwarded-For only
				}
				for i, added := range additions {
					for _, joined := range []bool{false, true} {
						// The banned one is refused.
						if got := ask(appended(maintained, added, "203.0.113.7", joined)); got != 403 {
							t.Errorf("%s: the banned client gets %d with %.60q", name, got, added)
						}
					}
					// Another one is limited, by its own address: a limiter of few has room for a handful of requests,
					// plans for two.
					client, over := fmt.Sprintf("192.0.%d.%d", network, i+1), 429
					if name == "stamps" {
						over = 503
					}
					n := 0
					for n < 50 && ask(appended(maintained, added, client, i%2 == 0)) != over {
						n++
					}
					if n == 50 || name == "plans" && n != 2 {
						t.Errorf("%s: a client is limited after %d requests with %.60q", name, n, added)
					}
				}
				// Those on the lists are let off, as long as they do not make themselves suspicious.
				for range 5 {
					if got := ask(appended(maintained, nil, "198.51.100.1", false)); got != 200 {
						t.Errorf("%s: the partner gets %d", name, got)
					}
				}
			}
		})
	}
}

// TestAProxyThatDoesNotSay: where a proxy in the chain hides who is behind it, a list that has the proxy frees nobody.
// A request of the proxy's own, which has no such header, is what it is.
func TestAProxyThatDoesNotSay(t *testing.T) {
	t.Parallel()
	b := start(t, strings.ReplaceAll(behindProxies, "HEADER", "x-forwarded-for"))
	for name, ask := range b.askers() {
		for _, lines := range [][]string{
			{"X-Forwarded-For: unknown"},
			{"X-Forwarded-For: 198.51.100.1, unknown, 127.0.0.1"},
			{"X-Forwarded-For: 198.51.100.1, , 127.0.0.1"},
			{"X-Forwarded-For:"},
			{"X-Forwarded-For: " + strings.Repeat("127.0.0.1, ", 40) + "127.0.0.1"},
		} {
			n := 0
			for n < 50 && ask(lines) == 200 {
				n++
			}
			if n == 50 {
				t.Errorf("%s: whoever is behind %.60q is let off", name, lines)
			}
		}
		if name == "forward-auth" { // there it is refused
			continue
		}
		for range 5 {
			if got := ask(nil); got != 200 {
				t.Errorf("%s: the proxy itself gets %d", name, got)
			}
		}
	}
}

// TestProxiesAreNeverBanned: an offence is that of the source that is charged. Where that is a trusted proxy of some
// gate, its address is not banned, however many offend; clients with an id of their own are.
func TestProxiesAreNeverBanned(t *testing.T) {
	t.Parallel()
	b := start(t, strings.ReplaceAll(behindProxies, "HEADER", "forwarded")+"# 192.0.2.1 is no proxy\n")
	forge := func(client, source string) {
		ev := weir.Event{Time: b.clock.Now(), Client: client, Source: netip.MustParseAddr(source)}
		b.offend(&ev, &weir.Answer{Reason: weir.Forged, Ban: true, Figure: weir.Figure{By: "stamps"}})
	}
	for i := range 5 {
		forge("", "127.0.0.1")
		forge(identify.AddressID(netip.MustParseAddr("10.1.2.3")), "10.1.2.3")
		forge(fmt.Sprint("c", i), "10.1.2.3")
		forge("", "::ffff:10.1.2.3")
	}
	b.wants("proxies", b.who(""), "client:c0 client:c1 client:c2 client:c3 client:c4")
	for range 3 {
		forge("", "192.0.2.1")
	}
	b.wants("no proxy", b.who("192.0.2.1"), "192.0.2.1")

	// A reload changes who is a proxy.
	if err := b.Reload(b.config(strings.NewReplacer("HEADER", "forwarded", ", 10.0.0.0/8",
		"").Replace(behindProxies))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		forge("", "10.1.2.3")
	}
	b.wants("no proxy any more", b.who("10.1.2.3"), "10.1.2.3")
}
