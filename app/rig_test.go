package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

// noon is where the clock of these tests stands: on the border of a period.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// patience bounds how long a test waits for something that must happen. It is never waited out by a test that passes.
const patience = 2 * time.Minute

// A site is a running weir with a real upstream, and the clock in the test's hand.
type site struct {
	t       *testing.T
	clock   *clock.Fake
	app     *app.App
	control *console.Client
	arrived chan string   // the path of each request, in the order in which the upstream saw them
	hold    chan struct{} // while not nil, the upstream answers nobody before it is closed
	mu      sync.Mutex
	handler http.HandlerFunc // what the upstream does; nil: says hello
	server  *httptest.Server
	folder  string
}

// newSite starts a weir with these throttles, one of which is called plans.
func newSite(t *testing.T, throttles string) *site {
	t.Helper()
	s := &site{t: t, clock: clock.NewFake(noon), arrived: make(chan string, 1000), folder: t.TempDir()}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.server.Close)
	a, err := app.New(s.config(throttles), app.Options{Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.app = a
	s.control = console.NewClient(a.ControlPath())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *site) config(throttles string) *config.Config {
	s.t.Helper()
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %s
http:
- listen: 127.0.0.1:0
  upstream: %s
  account: ["header:X-Api-Key"]
  throttles: [plans]
console: {listen: "off"}
throttles:
%s`, s.folder, s.server.URL, throttles)))
	if err != nil {
		s.t.Fatal(err)
	}
	return cfg
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.arrived <- r.URL.Path
	s.mu.Lock()
	hold, handler := s.hold, s.handler
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	if handler != nil {
		handler(w, r)
		return
	}
	fmt.Fprint(w, "hello")
}

// holding makes the upstream keep every request until the function it returns is called.
func (s *site) holding() (release func()) {
	hold := make(chan struct{})
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.hold = nil
		s.mu.Unlock()
		close(hold)
	}
}

func (s *site) does(handler http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = handler
}

// A call is a request that somebody made, and its answer when it has come.
type call struct {
	t    *testing.T
	conn net.Conn
	done chan struct{}
	resp *http.Response
	body string
	err  error
}

// send writes one request on a connection of its own, and reads the answer in the background.
func (s *site) send(request string) *call {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.app.Addr("http", 0).String())
	if err != nil {
		s.t.Fatal(err)
	}
	c := &call{t: s.t, conn: conn, done: make(chan struct{})}
	s.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		if c.resp, c.err = http.ReadResponse(bufio.NewReader(conn), nil); c.err != nil {
			return
		}
		body, err := io.ReadAll(c.resp.Body)
		c.body, c.err = string(body), err
	}()
	return c
}

func (s *site) get(account, path string) *call {
	s.t.Helper()
	return s.send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: api.example.com\r\nX-Api-Key: %s\r\n\r\n", path, account))
}

// status waits for the answer and returns its status.
func (c *call) status() int {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		c.t.Fatal("no answer")
	}
	if c.err != nil {
		c.t.Fatal(c.err)
	}
	return c.resp.StatusCode
}

func (c *call) want(status int) *call {
	c.t.Helper()
	if got := c.status(); got != status {
		c.t.Fatalf("status %d, want %d: %s", got, status, c.body)
	}
	return c
}

// problem returns the problem document of a refusal.
func (c *call) problem() map[string]any {
	c.t.Helper()
	var p map[string]any
	if ct := c.resp.Header.Get("Content-Type"); ct != "application/problem+json" {
		c.t.Fatalf("content type %q", ct)
	}
	if err := json.Unmarshal([]byte(c.body), &p); err != nil {
		c.t.Fatal(err)
	}
	return p
}

// leave closes the connection as a client does that has lost patience.
func (c *call) leave() { c.conn.Close() }

// arrives waits for the next request to reach the upstream.
func (s *site) arrives(path string) {
	s.t.Helper()
	select {
	case got := <-s.arrived:
		if got != path {
			s.t.Fatalf("the upstream saw %s, want %s", got, path)
		}
	case <-time.After(patience):
		s.t.Fatalf("%s did not arrive", path)
	}
}

// arrivesNext waits for the next in line to reach the upstream, which leaves so many in line. The next is called soon
// after the gate has learnt that the one ahead is on its way: the clock moves on to timers that are at most gap away,
// and stands as soon as the next is called, so that nobody overtakes it on its way.
func (s *site) arrivesNext(gap time.Duration, left int, path string) {
	s.t.Helper()
	s.until(path+" to be called", func() bool {
		if s.inLine() == left {
			return true
		}
		if next := s.clock.Next().Sub(s.clock.Now()); 0 <= next && next <= gap {
			s.clock.Advance(next)
		}
		return false
	})
	s.arrives(path)
}

// quiet checks that nothing has reached the upstream.
func (s *site) quiet() {
	s.t.Helper()
	select {
	case got := <-s.arrived:
		s.t.Fatalf("the upstream saw %s, want nothing", got)
	default:
	}
}

// inLine is how many requests are held back.
func (s *site) inLine() (n int) {
	s.t.Helper()
	status, err := console.StatusCall.Ask(context.Background(), s.control, console.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, th := range status.Throttles {
		if th.Table != nil {
			n += th.Table.Waiting
		}
	}
	return n
}

// waiting waits until so many requests are held back.
func (s *site) waiting(n int) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d requests to wait", n), func() bool { return s.inLine() == n })
}

// until asks again and again whether something has happened that nobody tells of.
func (s *site) until(what string, happened func() bool) {
	s.t.Helper()
	needs.Wait(s.t, what, happened)
}

// one is a throttle with one policy, as YAML.
func one(policies ...string) string {
	return "  plans:\n    quota:\n      policies:\n      - " + strings.Join(policies, "\n      - ") + "\n"
}

// scraped returns the page of metrics.
func scraped(t *testing.T, a *app.App) string {
	t.Helper()
	resp, err := http.Get("http://" + a.ConsoleAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
