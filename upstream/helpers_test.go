package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

// seen is an observer that remembers.
type seen struct {
	mu  sync.Mutex
	all []string
}

func (s *seen) note(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, fmt.Sprintf(format, a...))
}
func (s *seen) Failed(_, why string)     { s.note("failed %s", why) }
func (s *seen) Retried(string)           { s.note("retried") }
func (s *seen) Turned(_ string, up bool) { s.note("well %v", up) }
func (s *seen) Resolved(name string, n int, err error) {
	s.note("%s has %d, %v", name, n, err != nil)
}
func (s *seen) Left(server string)   { s.note("left %s", server) }
func (s *seen) Bounded(bound string) { s.note("bound %s", bound) }
func (s *seen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.all, ", ")
}

// rig is a pool in the hands of a test.
type rig struct {
	*Pool
	t     testing.TB
	clock *clock.Fake
	seen  *seen
}

func start(t testing.TB, o Options) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), seen: &seen{}}
	p, err := New(o, Env{Clock: r.clock, Observer: r.seen})
	if err != nil {
		t.Fatal(err)
	}
	r.Pool = p
	t.Cleanup(p.Close)
	return r
}

// script is a server of raw bytes: serve gets each connection, with the requests read from it one by one.
func script(t testing.TB, serve func(c net.Conn, br *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				serve(c, bufio.NewReader(c))
			})
		}
	})
	return "http://" + l.Addr().String()
}

// says answers each request with the same, whatever it is, until it is told to hang up after so many.
func says(t testing.TB, answer string, hangUpAfter int) string {
	return script(t, func(c net.Conn, br *bufio.Reader) {
		for n := 1; ; n++ {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err := io.WriteString(c, answer); err != nil || n == hangUpAfter {
				return
			}
		}
	})
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func request(t testing.TB, method, target string, body io.Reader) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://service.example"+target, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// get asks for something and returns all of the answer.
func (r *rig) get(target string) (*http.Response, string, error) {
	return r.do(request(r.t, "GET", target, nil))
}

func (r *rig) do(req *http.Request) (*http.Response, string, error) {
	res, err := r.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// idle waits until nothing is under way, and returns how many connections are laid aside.
func (r *rig) idle() int {
	r.t.Helper()
	needs.Wait(r.t, "nothing under way", func() bool {
		for _, s := range r.Stats() {
			if s.Active != 0 {
				return false
			}
		}
		return true
	})
	n := 0
	for _, s := range r.Stats() {
		n += s.Idle
	}
	return n
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// noneLeft fails a test that leaves goroutines of this package behind.
func noneLeft(t testing.TB) {
	t.Cleanup(func() {
		buf := make([]byte, 1<<20)
		var stacks string
		defer func() {
			if stacks != "" {
				t.Logf("left behind:\n%s", stacks)
			}
		}()
		needs.Wait(t, "all goroutines have ended", func() bool {
			stacks = string(buf[:runtime.Stack(buf, true)])
			if !strings.Contains(stacks, "upstream.(*sender)") && !strings.Contains(stacks, "upstream.(*Pool)") {
				stacks = ""
			}
			return stacks == ""
		})
	})
}

func unixSocket(t testing.TB, h http.Handler) string {
	t.Helper()
	path := t.TempDir() + "/s"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return "unix:" + path
}

func short(d time.Duration) Timeouts { return Timeouts{Response: weir.Duration(d)} }
