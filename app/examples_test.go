package app_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/keeper"
	"weir/internal/testkit/needs"
	"weir/store"
)

// An example is a file of examples/ that runs, at addresses of this test.
type example struct {
	*post
	at map[string]string // by the address in the file
}

var exampleAddress = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// exampleText reads a file, and puts addresses of the test into it: those that are given, and free ones for the others.
// Nothing else of it is changed, unless a test says so with pairs of changes.
func exampleText(t *testing.T, name string, at map[string]string, changes ...string) string {
	t.Helper()
	raw, err := os.ReadFile("../examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s: there is no %q", name, changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return exampleAddress.ReplaceAllStringFunc(text, func(address string) string {
		if at[address] == "" {
			at[address] = needs.FreeAddress()
		}
		return at[address]
	})
}

// runExample starts weir with a file. Behind it stand a service that says hello, at 127.0.0.1:3000 (/hang keeps a
// request until the test ends), one that sends back what it is sent, at 127.0.0.1:5432, and a mail server, at
// 127.0.0.1:2600.
func runExample(t *testing.T, name string, changes ...string) *example {
	t.Helper()
	e := &example{post: &post{t: t, clock: clock.NewFake(noon), folder: t.TempDir()}, at: map[string]string{}}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
		io.WriteString(w, "hello")
	}))
	t.Cleanup(service.Close)
	e.at["127.0.0.1:3000"] = strings.TrimPrefix(service.URL, "http://")
	e.sink = newSink(t)
	e.at["127.0.0.1:2600"] = e.sink.address
	e.at["127.0.0.1:5432"] = listenTCP(t)
	text := exampleText(t, name, e.at, append([]string{"./weir-data", e.folder}, changes...)...)
	if !strings.Contains(text, "\nconsole:") {
		text += "\nconsole: {listen: \"off\"}\n"
	}
	cfg, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	e.start(cfg)
	return e
}

// get asks for a path, and returns the answer, whose body is read.
func (e *example) get(at, path string, headers ...string) *http.Response {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), "GET", "http://"+at+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	return answer
}

// asHost asks a gate for a host, and wants a status, and a redirect where it is not empty.
func (e *example) asHost(status int, location, at, host, path string, headers ...string) *http.Response {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), "GET", "http://"+at+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != status || answer.Header.Get("Location") != location {
		e.t.Fatalf("%s%s: %s to %q, want %d", host, path, answer.Status, answer.Header.Get("Location"), status)
	}
	return answer
}

// wants asks so many times, and wants each answered with a status.
func (e *example) wants(status, times int, at, path string, headers ...string) *http.Response {
	e.t.Helper()
	var last *http.Response
	for i := range times {
		if last = e.get(at, path, headers...); last.StatusCode != status {
			e.t.Fatalf("request %d for %s: %s, want %d", i+1, path, last.Status, status)
		}
	}
	return last
}

// later asks beside the test, and returns where the status comes.
func (e *example) later(at, path string, headers ...string) <-chan int {
	done := make(chan int, 1)
	go func() {
		r, err := http.NewRequestWithContext(e.t.Context(), "GET", "http://"+at+path, nil)
		if err != nil {
			done <- 0
			return
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			done <- 0
			return
		}
		answer.Body.Close()
		done <- answer.StatusCode
	}()
	return done
}

// gate waits until something holds of the first gate.
func (e *example) gate(what string, holds func(console.GateStatus) bool) {
	e.t.Helper()
	var last console.GateStatus
	if !keeper.Await(func() bool {
		s, err := console.StatusCall.Ask(e.t.Context(), e.control, console.None{})
		if err == nil {
			last = s.Gates[0]
		}
		return err == nil && holds(last)
	}) {
		e.t.Fatalf("not %s: %+v", what, last)
	}
}

const exampleGate = "127.0.0.1:8080"

// TestExamples: every configuration of examples/ is started, and keeps its main promise to a real client.
func TestExamples(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T){
		"quota.yaml": func(t *testing.T) {
			e := runExample(t, "quota.yaml")
			e.wants(200, 10, e.at[exampleGate], "/", "X-Api-Key", "a")
			if r := e.wants(429, 1, e.at[exampleGate], "/", "X-Api-Key", "a"); r.Header.Get("Retry-After") != "1" {
				t.Errorf("%v", r.Header)
			}
			e.wants(200, 1, e.at[exampleGate], "/", "X-Api-Key", "b")
		},
		"plans.yaml": func(t *testing.T) {
			e := runExample(t, "plans.yaml")
			gate := e.at[exampleGate]
			e.wants(401, 1, gate, "/")
			e.wants(200, 2, gate, "/v1/reports/x", "X-Api-Key", "small")
			e.wants(429, 1, gate, "/v1/reports/x", "X-Api-Key", "small")
			e.wants(200, 3, gate, "/", "X-Api-Key", "small")
			e.wants(429, 1, gate, "/", "X-Api-Key", "small")
			e.wants(200, 50, gate, "/v1/reports/x", "X-Api-Key", "acme")
			e.wants(429, 1, gate, "/", "X-Api-Key", "acme")
			e.wants(200, 200, gate, "/", "X-Api-Key", "initech")
			e.wants(429, 1, gate, "/", "X-Api-Key", "initech")
		},
		"routes.yaml": func(t *testing.T) {
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Service", "other")
			}))
			t.Cleanup(other.Close)
			_, port, _ := net.SplitHostPort(other.Listener.Addr().String())
			e := runExample(t, "routes.yaml", "127.0.0.1:3001", "localhost:"+port)
			gate := e.at[exampleGate]
			e.asHost(401, "", gate, "api.example.org", "/v1/x")
			for range 10 {
				e.asHost(200, "", gate, "api.example.org", "/v1/x", "X-Api-Key", "acme")
			}
			e.asHost(429, "", gate, "api.example.org", "/v1/x", "X-Api-Key", "acme")
			if r := e.asHost(200, "", gate, "api.example.org", "/v2"); r.Header.Get("X-Service") != "other" {
				t.Errorf("%v", r.Header)
			}
			if r := e.asHost(200, "", gate, "www.shop.example", "/"); r.Header.Get("X-Frame-Options") != "DENY" {
				t.Errorf("%v", r.Header)
			}
			e.asHost(200, "", gate, "anything", "/health")
			e.asHost(308, "https://www.example.org/a?b=c", gate, "old.example.net", "/a?b=c")
			e.asHost(404, "", gate, "unknown", "/")
		},
		"keys.yaml": func(t *testing.T) {
			e := runExample(t, "keys.yaml")
			at, api := e.at[exampleGate], e.at["127.0.0.1:9100"]
			as := func(account, tenant string) []string { return []string{"X-Api-Key", account, "X-Tenant", tenant} }
			job := func(account, tenant, path string) string {
				return e.decide(api, "change-me-before-you-use-it", fmt.Sprintf(`{"policy":"jobs","account":"%s",`+
					`"route":"POST shop.example%s","parts":{"header:X-Tenant":"%s"}}`, account, path, tenant))
			}
			e.wants(200, 19, at, "/orders/1", as("acme", "one")...)
			if got := job("acme", "one", "/orders"); !strings.Contains(got, `"verdict":"admit"`) {
				t.Errorf("the twentieth, by the API: %s", got)
			}
			e.wants(429, 1, at, "/orders/2", as("acme", "one")...)
			if got := job("acme", "one", "/orders"); !strings.Contains(got, `"verdict":"refuse"`) {
				t.Errorf("over the share, by the API: %s", got)
			}
			e.wants(200, 1, at, "/bills", as("acme", "one")...)
			e.wants(200, 1, at, "/orders", as("acme", "other")...)
			for i := range 20 { // searches use the budget up, whatever tenants they are for
				e.wants(200, 1, at, "/search", as("globex", fmt.Sprint(i))...)
			}
			e.wants(429, 1, at, "/orders", as("globex", "new")...)
			raw, err := os.ReadFile("../examples/keys.yaml")
			page, err2 := os.ReadFile("../docs/keys.md")
			if err != nil || err2 != nil || !strings.Contains(string(page), "```yaml\n"+string(raw)+"```") {
				t.Errorf("docs/keys.md does not show this file: %v, %v", err, err2)
			}
		},
		"delay.yaml": func(t *testing.T) {
			e := runExample(t, "delay.yaml")
			e.wants(200, 5, e.at[exampleGate], "/", "X-Api-Key", "a")
			sixth := e.later(e.at[exampleGate], "/", "X-Api-Key", "a")
			e.gate("waiting", func(g console.GateStatus) bool { return g.Waiting == 1 })
			e.clock.Advance(time.Second)
			if got := <-sixth; got != 200 {
				t.Errorf("the sixth, a second later: %d", got)
			}
		},
		"fair-use.yaml": func(t *testing.T) {
			e := runExample(t, "fair-use.yaml")
			e.wants(200, 1, e.at[exampleGate], "/", "Cookie", "session=a")
			second := e.later(e.at[exampleGate], "/", "Cookie", "session=a")
			e.gate("waiting", func(g console.GateStatus) bool { return g.Waiting == 1 })
			e.wants(200, 1, e.at[exampleGate], "/", "Cookie", "session=b")
			e.clock.Advance(50 * time.Millisecond)
			if got := <-second; got != 200 {
				t.Errorf("50ms later: %d", got)
			}
		},
		"load-balancer.yaml": func(t *testing.T) {
			e := runExample(t, "load-balancer.yaml", "10.20.0.0/24", "127.0.0.1/32")
			e.wants(200, 20, e.at[exampleGate], "/", "X-Forwarded-For", "198.51.100.1")
			e.wants(429, 1, e.at[exampleGate], "/", "X-Forwarded-For", "198.51.100.1")
			e.wants(200, 1, e.at[exampleGate], "/", "X-Forwarded-For", "198.51.100.2")
			// what the client wrote itself does not count
			e.wants(429, 1, e.at[exampleGate], "/", "X-Forwarded-For", "198.51.100.2, 198.51.100.1")
		},
		"upstreams.yaml": func(t *testing.T) {
			e := runExample(t, "upstreams.yaml") // nobody listens at the address of the second server
			e.wants(200, 8, e.at[exampleGate], "/", "X-Api-Key", "a")
			e.gate("one server is left", func(g console.GateStatus) bool {
				return len(g.Servers) == 2 && g.Servers[0].Healthy && !g.Servers[1].Healthy &&
					g.Servers[0].Requests == 8 && g.Servers[1].Failures == 3
			})
			// A request that is tried twice has one place: there is no other one.
			e = runExample(t, "upstreams.yaml", "  account:", "  capacity: {concurrent: 1}\n  account:")
			e.wants(200, 8, e.at[exampleGate], "/", "X-Api-Key", "a")
			e.gate("one place for each", func(g console.GateStatus) bool {
				return g.Servers[1].Failures == 3 && g.Capacity.InUse == 0 && g.Capacity.LetIn["pool"] == 8
			})
		},
		"shadow.yaml": func(t *testing.T) {
			e := runExample(t, "shadow.yaml")
			e.wants(200, 20, e.at[exampleGate], "/", "X-Api-Key", "a")
			s, err := console.StatusCall.Ask(t.Context(), e.control, console.None{})
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range s.Throttles {
				if would := one.Shadowed["refuse"]; (one.Throttle == "tomorrow") != (would == 15) {
					t.Errorf("%s would refuse %d", one.Throttle, would)
				}
			}
		},
		"monthly.yaml": func(t *testing.T) {
			e := runExample(t, "monthly.yaml")
			e.wants(401, 1, e.at[exampleGate], "/")
			r := e.wants(200, 20, e.at[exampleGate], "/", "Authorization", "Bearer acme")
			if policy := r.Header.Get("RateLimit-Policy"); !strings.Contains(policy, `"per-month";q=2500000;w=`) {
				t.Error(policy)
			}
			e.wants(429, 1, e.at[exampleGate], "/", "Authorization", "Bearer acme")
			why, err := console.WhyAskCall.Ask(t.Context(), e.control, console.Question{Method: "GET", Path: "/", Account: "other"})
			if err != nil || !slices.ContainsFunc(why.Steps[1].Rules,
				func(r console.Rule) bool { return r.Rule == "per-month" && r.Per == "month" && r.Limit == 100_000 }) {
				t.Errorf("%+v, %v", why, err)
			}
		},
		"bloom-edge.yaml": func(t *testing.T) {
			e := runExample(t, "bloom-edge.yaml")
			if in := connections(e.at[exampleGate], 120, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); in != 100 {
				t.Errorf("%d connections of a network got in, want 100", in)
			}
		},
		"stamps.yaml": func(t *testing.T) {
			e := runExample(t, "stamps.yaml")
			gate := e.at[exampleGate]
			if _, err := console.ShadowCall.Ask(t.Context(), e.control,
				console.Shadow{Throttles: []string{"stamps"}}); err != nil {
				t.Fatal(err)
			}
			e.wants(200, 1, gate, "/") // without load nothing is asked
			for range 64 {
				e.later(gate, "/hang")
			}
			e.gate("under way", func(g console.GateStatus) bool { return g.InFlight == 64 })
			asked := func() bool {
				s, err := console.StatusCall.Ask(t.Context(), e.control, console.None{})
				return err == nil && slices.ContainsFunc(s.Throttles,
					func(s console.ThrottleStatus) bool { return s.Stamp != nil && s.Stamp.Most() > 0 })
			}
			for range 50 {
				if asked() {
					break
				}
				e.clock.Advance(100 * time.Millisecond)
			}
			if r := e.wants(503, 1, gate, "/", "Accept", "text/html"); r.Header.Get("Stamp-Challenge") == "" {
				t.Errorf("%v", r.Header)
			}
		},
		"tcp.yaml": func(t *testing.T) {
			e := runExample(t, "tcp.yaml")
			gate := e.at["127.0.0.1:8432"]
			if in := connections(gate, 60, "hello"); in != 40 {
				t.Errorf("%d connections of a network got in, want 40", in)
			}
		},
		"api.yaml": func(t *testing.T) {
			e := runExample(t, "api.yaml")
			at := e.at["127.0.0.1:9100"]
			for i := range 21 {
				want := "admit"
				if i == 20 {
					want = "refuse"
				}
				if got := e.decide(at, "change-me-0123456789",
					`{"policy":"login","source":"192.0.2.7"}`); !strings.Contains(got, `"verdict":"`+want+`"`) {
					t.Fatalf("login %d: %s", i+1, got)
				}
			}
			if got := e.decide(at, "change-me-0123456789",
				`{"policy":"login","source":"198.51.100.7"}`); !strings.Contains(got, `"verdict":"admit"`) {
				t.Error(got)
			}
			if got := e.decide(at, "another-token-012345",
				`{"policy":"login","source":"192.0.2.8"}`); strings.Contains(got, "admit") {
				t.Error(got)
			}
		},
		"full.yaml": func(t *testing.T) {
			e := runExample(t, "full.yaml")
			e.wants(200, 1, e.at[exampleGate], "/", "X-Api-Key", "acme")
			second := e.later(e.at[exampleGate], "/", "X-Api-Key", "acme")
			e.gate("waiting", func(g console.GateStatus) bool { return g.Waiting == 1 })
			e.clock.Advance(50 * time.Millisecond)
			if got := <-second; got != 200 {
				t.Errorf("50ms later: %d", got)
			}
			if got := e.decide(e.at["127.0.0.1:9100"], "change-me-change-me",
				`{"policy":"orders","account":"x"}`); !strings.Contains(got, `"verdict":"admit"`) {
				t.Error(got)
			}
			c, err := net.Dial("tcp", e.at["127.0.0.1:15432"])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			// the PROXY protocol, which the echo sends back
			if got, err := exchange(c, "hello"); !strings.Contains(got, "\r\n\r\n\x00\r\nQUIT\n") {
				t.Errorf("%q came back, %v", got, err)
			}
		},
		"envoy.yaml": func(t *testing.T) { // Envoy is not in Debian: a client of its service stands for it
			e := runExample(t, "envoy.yaml")
			conn, err := grpc.NewClient(e.at["127.0.0.1:8081"],
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for i := range 11 {
				entries := []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "acme"}}
				r, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
					Domain: "edge", Descriptors: []*common.RateLimitDescriptor{{Entries: entries}}})
				if err != nil {
					t.Fatal(err)
				}
				want := rls.RateLimitResponse_OK
				if i == 10 {
					want = rls.RateLimitResponse_OVER_LIMIT
				}
				if r.OverallCode != want {
					t.Errorf("request %d: %s", i+1, r.OverallCode)
				}
			}
		},
		"mail.yaml": func(t *testing.T) {
			e := runExample(t, "mail.yaml")
			e.user("ann", "ann@example.org")
			ann := e.mailer("ann")
			if err := ann.send("hello", "bob@elsewhere.example"); err != nil {
				t.Fatal(err)
			}
			if err := e.mailer("ann").as("chief@example.org").send("forged",
				"bob@elsewhere.example"); code(err)/100 != 5 {
				t.Errorf("a sender that is not hers: %v", err)
			}
			if _, err := console.ShadowCall.Ask(t.Context(), e.control,
				console.Shadow{Throttles: []string{"outgoing"}}); err != nil {
				t.Fatal(err)
			}
			if err := ann.send("news", many(18)...); err != nil {
				t.Fatal(err)
			}
			e.arrived(15, many(18)) // three wait, and leave one by one
			e.runs(time.Minute)
			e.arrived(16, many(18))
		},
		"reach.yaml": func(t *testing.T) {
			e := runExample(t, "reach.yaml")
			e.user("ann", "ann@example.org")
			if err := e.mailer("ann").send("hello", many(3)...); err != nil {
				t.Fatal(err)
			}
			e.arrived(3, many(3))
			why, err := console.WhyAskCall.Ask(t.Context(), e.control, console.Question{Gate: e.at["127.0.0.1:2525"], User: "ann",
				To: append(many(3), "new@elsewhere.example")})
			if err != nil || why.Verdict != weir.Admit ||
				!strings.HasPrefix(why.Steps[1].Text, "1 of 4 recipients new to the user") {
				t.Errorf("%+v, %v", why, err)
			}
			if got := e.decide(e.at["127.0.0.1:9002"], "change-me-0123456789",
				`{"kind":"sms","user":"ann","recipients":["+4915112345678"]}`); !strings.Contains(got,
				`"verdict":"admit"`) {
				t.Error(got)
			}
		},
		"auth.yaml":    examplesOfAuth,
		"postfix.yaml": exampleOfPostfix,
		"xdp.yaml":     nil, // in cmd/weir, in a network of its own
		"farm.yaml":    nil, // in cmd/weir, as three processes
	}
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if _, known := tests[filepath.Base(file)]; !known {
			t.Errorf("nobody runs %s", file)
		}
	}
	for name, test := range tests {
		if test != nil {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t) })
		}
	}
}

// connections opens so many one after the other, says something in each, and returns how many are answered. The others
// are turned away.
func connections(at string, n int, text string) (in int) {
	for range n {
		c, err := net.Dial("tcp", at)
		if err != nil {
			continue
		}
		if _, err := exchange(c, text); err == nil {
			in++
		}
		c.Close()
	}
	return in
}

// decide asks the decision API.
func (e *example) decide(at, token, question string) string {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), "POST", "http://"+at+"/v1/decide", strings.NewReader(question))
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

// as sends as somebody else.
func (m *mailer) as(from string) *mailer {
	m.from = from
	return m
}

// listenTCP starts a service that sends back what it is sent.
func listenTCP(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

// exchange writes something, and returns the first of what comes back.
func exchange(c net.Conn, text string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	got := make([]byte, 512)
	n, err := c.Read(got)
	return string(got[:n]), err
}

// examplesOfAuth puts the real nginx and the real HAProxy, with the files beside it, in front of a service and beside
// auth.yaml.
func examplesOfAuth(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, e *example) string{
		"nginx": func(t *testing.T, e *example) string {
			program := needs.Program(t, "nginx", "apt-get install nginx")
			text := exampleText(t, "nginx-auth.conf", e.at, "listen 80;", "listen LISTEN;")
			temp := ""
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				temp += fmt.Sprintf("%s_temp_path FOLDER/%[1]s;\n", kind)
			}
			text = "daemon off;\nmaster_process off;\npid FOLDER/pid;\nevents {}\nhttp {\naccess_log off;\n" + temp +
				text + "}\n"
			return before(t, "", text, func(folder, config string) *exec.Cmd {
				return exec.Command(program, "-p", folder, "-e", "stderr", "-c", config)
			})
		},
		"haproxy": func(t *testing.T, e *example) string {
			program := needs.Program(t, "haproxy", "apt-get install haproxy")
			if out, err := exec.Command(program, "-vv").Output(); err != nil || !strings.Contains(string(out), "+LUA") {
				needs.Skip(t, fmt.Sprintf("this HAProxy has no Lua: %v", err))
			}
			script, err := filepath.Abs("../examples/haproxy-weir.lua")
			if err != nil {
				t.Fatal(err)
			}
			text := exampleText(t, "haproxy-auth.cfg", e.at, "bind :80", "bind LISTEN", "/etc/haproxy/haproxy-weir.lua",
				script)
			return before(t, "", text, func(_,
				config string) *exec.Cmd {
				return exec.Command(program, "-db", "-f", config)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := runExample(t, "auth.yaml")
			front := run(t, e)
			r := e.wants(200, 10, front, "/", "X-Api-Key", "a")
			if policy := r.Header.Get("RateLimit-Policy"); !strings.Contains(policy, `"per-second";q=10;w=1`) {
				t.Errorf("admitted with %v", r.Header)
			}
			if r = e.wants(429, 1, front, "/", "X-Api-Key", "a"); r.Header.Get("Retry-After") != "1" ||
				r.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("refused with %v", r.Header)
			}
			e.wants(200, 1, front, "/", "X-Api-Key", "b")
		})
	}
}

// exampleOfPostfix puts postfix.yaml beside the real Postfix.
func exampleOfPostfix(t *testing.T) {
	at := map[string]string{}
	host, port, _ := strings.Cut(needs.FreeAddress(), ":")
	at["127.0.0.1:2526"] = host + ":" + port
	text := exampleText(t, "postfix.yaml", at, "./weir-data", t.TempDir(), "[127.0.0.1]:2526", "["+host+"]:"+port)
	p, mta, world := besidePostfixAs(t, nil, at["127.0.0.1:10040"], at["127.0.0.1:10025"], text)
	if _, err := console.ShadowCall.Ask(t.Context(), p.control,
		console.Shadow{Throttles: []string{"outgoing"}}); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"one@example.net", "two@example.net"} {
		if err := submit(mta.Addr, "ann", to); err != nil {
			t.Fatal(err)
		}
	}
	if !keeper.Await(func() bool { return p.status().Recipients[store.Delayed] == 1 }) {
		t.Fatalf("the second does not wait: %+v\n%s", p.status(), mta.Log())
	}
	if err := submit(mta.Addr, "bob", "friend@example.net"); err != nil {
		t.Fatal(err)
	}
	if got := len(world.Await(2)); got != 2 {
		t.Fatalf("%d mails have arrived", got)
	}
	p.runs(time.Minute)
	if got := len(world.Await(3)); got != 3 {
		t.Errorf("%d mails have arrived after a minute", got)
	}
}
