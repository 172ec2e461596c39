package authgate

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"weir"
	"weir/identify"
	"weir/internal/clock"
)

func readAll(c net.Conn) string { all, _ := io.ReadAll(c); return string(all) }

// wire is a question on the wire.
func wire(headers []string, more string) string {
	var b strings.Builder
	b.WriteString("GET / HTTP/1.1\r\nHost: weir\r\n")
	for i := 0; i < len(headers); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", headers[i], headers[i+1])
	}
	return b.String() + more + "\r\n"
}

// exchange writes a question and reads its answer.
func exchange(t *testing.T, c net.Conn, question string) *http.Response {
	t.Helper()
	_, _ = io.WriteString(c, question)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestConnectionsBound(t *testing.T) {
	r := start(t, Options{Bounds: Bounds{Connections: 2}}, clock.NewFake(noon), nil)
	for range 2 {
		if res := exchange(t, r.dial(), wire(byNginx(), "")); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
	}
	if _, err := r.dial().Read(make([]byte, 1)); err == nil {
		t.Error("one connection too many is served")
	}
	if n := r.seen.bounds(BoundConnections); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

func TestRequestsBound(t *testing.T) {
	turns := make(chan *weir.Turn, 10)
	line := lineOf(turns, noon)
	r := start(t, Options{Bounds: Bounds{Requests: 2}}, clock.NewFake(noon), chainOf(t, line))
	first, second := r.asking(t.Context(), byNginx()...), r.asking(t.Context(), byNginx()...)
	r.untilWaiting(2)
	a := r.ask(byNginx()...)
	if a.status != 403 || a.header.Get("X-Weir-Status") != "503" || a.Reason != "overload" ||
		a.Policy != "bounds.requests" || a.header.Get("Retry-After") != "1" {
		t.Error(a.status, a.body)
	}
	if a := r.ask(byTraefik()...); a.status != 503 || r.seen.bounds(BoundRequests) != 2 || len(line.asked()) != 2 {
		t.Error(a.status, a.body)
	}
	for range 2 {
		receive(t, turns).Grant()
	}
	if one, two := receive(t, first), receive(t, second); one.status != 200 || two.status != 200 {
		t.Error(one, two)
	}
}

// TestNoClientTakesAllQuestions: of what may be under way, and wait, one client leaves a tenth to others.
func TestNoClientTakesAllQuestions(t *testing.T) {
	const most, part = 20, 18
	for name, c := range map[string]Bounds{BoundRequests: {Requests: most}, BoundWaiting: {Waiting: most}} {
		t.Run(name, func(t *testing.T) {
			turns := make(chan *weir.Turn, 2*most)
			r := start(t, Options{Bounds: c}, clock.NewFake(noon), chainOf(t, lineOf(turns, noon)))
			from := func(addr string) []string {
				return []string{"X-Forwarded-Method", "GET", "X-Forwarded-Host", "example.com", "X-Forwarded-Uri", "/",
					"X-Forwarded-For", addr}
			}
			var waiting []<-chan answer
			for i := range part {
				waiting = append(waiting, r.asking(t.Context(), from(fmt.Sprintf("2001:db8::%x", i+1))...))
				r.untilWaiting(i + 1)
			}
			if a := r.ask(from("2001:db8::ffff")...); a.status != 503 || a.Policy != "bounds."+name {
				t.Error(a.status, a.body)
			}
			for i := range most - part {
				waiting = append(waiting, r.asking(t.Context(), from(fmt.Sprintf("192.0.2.%d", i+1))...))
				r.untilWaiting(part + i + 1)
			}
			if a := r.ask(from("192.0.2.100")...); a.status != 503 || r.seen.bounds(name) != 2 {
				t.Error(a.status, a.body)
			}
			for len(turns) > 0 {
				receive(t, turns).Grant()
			}
			for _, w := range waiting {
				if a := receive(t, w); a.status != 200 {
					t.Error(a.status, a.body)
				}
			}
		})
	}
}

func TestWaitingBound(t *testing.T) {
	turns := make(chan *weir.Turn, 10)
	line := lineOf(turns, noon)
	r := start(t, Options{Bounds: Bounds{Waiting: 1}}, clock.NewFake(noon), chainOf(t, line))
	first := r.asking(t.Context(), byNginx()...)
	r.untilWaiting(1)
	if a := r.ask(byTraefik()...); a.status != 503 || a.Policy != "bounds.waiting" || r.seen.bounds(BoundWaiting) != 1 {
		t.Error(a.status, a.body)
	}
	if o := receive(t, line.settled); o.Done {
		t.Error("the one too many is charged")
	}
	receive(t, turns).Grant()
	if a := receive(t, first); a.status != 200 {
		t.Error(a.status, a.body)
	}
}

func TestHeaderBound(t *testing.T) {
	r := start(t, Options{Bounds: Bounds{Header: 8 << 10}}, clock.NewFake(noon), nil)
	question := func(n int) string {
		short := wire(byNginx(), "X-Long: \r\n")
		return wire(byNginx(), "X-Long: "+strings.Repeat("a", n-len(short))+"\r\n")
	}
	for n, want := range map[int]int{8 << 10: 200, 8<<10 + 1: 431, 100 << 10: 431} {
		if res := exchange(t, r.dial(), question(n)); res.StatusCode != want {
			t.Errorf("%d bytes: %s", n, res.Status)
		}
	}
	if n := r.seen.bounds(BoundHeader); n != 2 {
		t.Errorf("counted %d times", n)
	}
}

// Only trusted proxies are answered, whatever others write.
func TestStranger(t *testing.T) {
	p := newProbe(nil)
	r := start(t, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}}, clock.NewFake(noon),
		chainOf(t, p))
	for _, headers := range [][]string{byNginx(), byTraefik(), nil, {"X-Forwarded-For", "192.0.2.7"}} {
		if a := r.ask(headers...); a.status != 403 || a.header.Get("X-Weir-Status") != "403" {
			t.Error(a.status, a.body)
		}
	}
	if len(p.asked()) != 0 || r.seen.bounds(BoundStranger) != 4 ||
		strings.Count(r.log.String(), "not a trusted proxy") != 1 {
		t.Error(p.asked(), r.seen.bounded, r.log)
	}
	// By default, this machine may ask, and nobody else.
	g, err := New(Options{}, nil, Env{})
	if err != nil {
		t.Fatal(err)
	}
	for peer, want := range map[string]int{"127.0.0.1:1": 200, "127.9.9.9:1": 200, "[::1]:1": 200, "192.0.2.1:1": 403,
		"10.0.0.1:1": 403, "[2001:db8::1]:1": 403, "": 403, "@": 403} {
		w := &recorder{header: http.Header{}}
		g.ServeHTTP(w, &http.Request{RemoteAddr: peer, Header: headersOf(byNginx()...)})
		if w.status != want {
			t.Errorf("%q gets %d", peer, w.status)
		}
	}
}

// A recorder is a response that nobody reads.
type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// A question that nobody can answer is refused, and told to whoever looks after the gate.
func TestMalformedIsRefused(t *testing.T) {
	p := newProbe(nil)
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, p))
	for i, c := range []struct {
		headers []string
		status  int
	}{
		{nil, 400},
		{but(byTraefik(), "X-Forwarded-For", ""), 400},
		{but(byNginx(), "X-Original-Uri", ""), 403},
		{byNginx("X-Forwarded-Uri", "/free"), 403},
	} {
		a := r.ask(c.headers...)
		if a.status != c.status || a.header.Get("X-Weir-Status") != "400" || a.Detail == "" ||
			r.seen.bounds(BoundMalformed) != i+1 {
			t.Error(a.status, a.header, a.body)
		}
	}
	if len(p.asked()) != 0 || strings.Count(r.log.String(), "cannot be answered") != 1 {
		t.Error(p.asked(), r.log)
	}
}

func TestBadAccount(t *testing.T) {
	p := newProbe(nil)
	r := start(t, Options{Account: []string{"header:X-Api-Key"}}, clock.NewFake(noon), chainOf(t, p))
	for _, key := range []string{strings.Repeat("k", identify.MaxAccount+1), "source:192.0.2.1", "\xff"} {
		if a := r.ask(byTraefik("X-Api-Key", key)...); a.status != 400 {
			t.Errorf("%.20q: %d %s", key, a.status, a.body)
		}
	}
	if a := r.ask(byTraefik("X-Api-Key", strings.Repeat("k", identify.MaxAccount))...); a.status != 200 ||
		len(p.asked()) != 1 {
		t.Error(a.status, a.body)
	}
}

// A body is not waited for: it may have been announced and never come. What comes next on the connection is not taken
// for a question.
func TestBodyIsIgnored(t *testing.T) {
	p := newProbe(nil)
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, p))
	forged := wire(byNginx("X-Api-Key", "somebody else's"), "")
	for name, more := range map[string]string{"announced": "Content-Length: 500\r\n",
		"chunks": "Transfer-Encoding: chunked\r\n", "expected": "Content-Length: 5\r\nExpect: 100-continue\r\n"} {
		c := r.dial()
		_, _ = io.WriteString(c, wire(byNginx(), more))
		br := bufio.NewReader(c)
		res, err := http.ReadResponse(br, nil)
		if err != nil || res.StatusCode != 200 || !res.Close {
			t.Fatal(name, res, err)
		}
		_, _ = io.WriteString(c, forged)
		_ = c.(*net.TCPConn).CloseWrite()
		if rest, _ := io.ReadAll(br); len(rest) > 0 {
			t.Errorf("%s: %s", name, rest)
		}
	}
	// Also one that comes, up to what is thrown away without a word.
	req := r.request(t.Context(), byNginx()...)
	req.Method, req.Body, req.ContentLength = "POST", io.NopCloser(strings.NewReader(strings.Repeat("x", 100<<10))),
		100<<10
	if a := r.do(req); a.status != 200 {
		t.Error(a.status, a.body)
	}
	if n := len(p.asked()); n != 4 {
		t.Errorf("%d questions", n)
	}
}
