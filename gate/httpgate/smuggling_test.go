package httpgate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/internal/testkit/needs"
)

// tape is an upstream of raw TCP that keeps every byte it gets, and answers each request that comes.
type tape struct {
	net.Listener
	mu    sync.Mutex
	bytes []byte
}

func record(t testing.TB) *tape {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rec := &tape{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go rec.serve(c)
		}
	}()
	return rec
}

func (rec *tape) serve(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(io.TeeReader(c, rec))
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

func (rec *tape) Write(p []byte) (int, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.bytes = append(rec.bytes, p...)
	return len(p), nil
}

func (rec *tape) got() string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return string(rec.bytes)
}

const second = "GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n"

// violations are requests that must not get through.
func violations(t *testing.T) map[string]string {
	text, err := os.ReadFile("../../internal/http1/testdata/violations.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, quoted, found := strings.Cut(strings.TrimSpace(line), "\t"); found {
			if all[name], err = strconv.Unquote(quoted); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestSmuggling sends each violation with a second request behind it, over real sockets: the answer is 400 and nothing
// else, and the upstream sees no complete request.
func TestSmuggling(t *testing.T) {
	rec := record(t)
	g := start(t, Options{Upstream: to("http://" + rec.Addr().String())})
	for name, probe := range violations(t) {
		for _, good := range []string{"", "GET /good HTTP/1.1\r\nHost: a\r\n\r\n"} {
			t.Run(name, func(t *testing.T) {
				c := g.dial()
				g.send(c, good+probe+second)
				br := bufio.NewReader(c)
				if good != "" {
					// What comes before is answered first.
					if res, _ := g.answer(br); res.StatusCode != 200 {
						t.Fatalf("the good request: %v", res.Status)
					}
				}
				if res, _ := g.answer(br); res.StatusCode != 400 {
					t.Errorf("answered with %v", res.Status)
				}
				if _, err := br.ReadByte(); err == nil {
					t.Errorf("the connection goes on")
				}
			})
		}
	}
	got := rec.got()
	if strings.Contains(got, "smuggled") {
		t.Errorf("smuggled: %q", got)
	}
	// Of the violations within a body, the upstream may have seen the head and a part of the body; never their end.
	for _, request := range strings.SplitAfter(got, "\r\n\r\n") {
		if strings.HasPrefix(request, "0\r\n") {
			t.Errorf("a request with a broken body was completed: %q", got)
		}
	}
}

// TestUnambiguous sends odd but sound requests; the upstream gets exactly one plain request for each, compared byte by
// byte.
func TestUnambiguous(t *testing.T) {
	const common = "Forwarded: for=127.0.0.1;host=a;proto=http\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: " +
		"a\r\nX-Forwarded-Proto: http\r\nX-Request-Id: ID\r\nWeir-Hops: 1\r\n"
	for name, c := range map[string]struct{ in, want string }{
		"absolute form with another Host": {
			"GET http://a/x HTTP/1.1\r\nHost: b\r\n\r\n",
			"GET /x HTTP/1.1\r\nHost: a\r\n" + common + "\r\n"},
		"chunk extensions": {
			"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=\"GET / " +
				"HTTP/1.1\"\r\nhello\r\n0\r\n\r\n",
			"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" + common + "\r\n5\r\nhello\r\n0\r\n\r\n"},
		"a body that looks like a request": {
			"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\n" + second,
			"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n" + common + "\r\n" + second},
		"hop-by-hop": {
			"GET /x HTTP/1.1\r\nHost: a\r\nConnection: X-Secret, keep-alive\r\nX-Secret: 1\r\nKeep-Alive: " +
				"5\r\nProxy-Connection: x\r\n\r\n",
			"GET /x HTTP/1.1\r\nHost: a\r\n" + common + "\r\n"},
		"connection names a framing header": {
			"POST /x HTTP/1.1\r\nHost: a\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello",
			"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" + common + "\r\nhello"},
		"upgrade to more HTTP": {
			"GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: " +
				"AA\r\n\r\n",
			"GET /x HTTP/1.1\r\nHost: a\r\n" + common + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := record(t)
			g := start(t, Options{Upstream: to("http://" + rec.Addr().String())})
			conn := g.dial()
			g.send(conn, c.in)
			res, body := g.answer(bufio.NewReader(conn))
			if res.StatusCode != 200 || body != "ok" {
				t.Fatalf("%v %q", res.Status, body)
			}
			got := strings.Replace(rec.got(), res.Header.Get("X-Request-Id"), "ID", 1)
			if got != c.want {
				t.Errorf("\n got %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestHeaderBound(t *testing.T) {
	t.Parallel()
	g := start(t, Options{Upstream: to(echo(t).URL), Bounds: Bounds{Header: 1024}})
	head := func(size int) string {
		const before, after = "GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n"
		return before + strings.Repeat("y", size-len(before)-len(after)) + after
	}
	c := g.dial()
	br := bufio.NewReader(c)
	g.send(c, head(1024))
	if res, _ := g.answer(br); res.StatusCode != 200 {
		t.Errorf("at the bound: %v", res.Status)
	}
	g.send(c, head(1025))
	if res, _ := g.answer(br); res.StatusCode != 431 {
		t.Errorf("above the bound: %v", res.Status)
	}
	// A bomb: header after header, without an end.
	c = g.dial()
	go func() {
		for {
			if _, err := io.WriteString(c,
				"GET / HTTP/1.1\r\nHost: a\r\n"+strings.Repeat("X: y\r\n", 1000)); err != nil {
				return
			}
		}
	}()
	if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != 431 {
		t.Errorf("a bomb: %v", res.Status)
	}
	if g.seen.bounds(BoundHeader) != 2 {
		t.Errorf("%d counted", g.seen.bounds(BoundHeader))
	}
	needs.Wait(t, "all closed", func() bool { return g.Open.Load() == 0 })
}

// TestFieldsAreBounded: a request has a thousand header fields, and a thousand trailers, however few bytes they take.
// One more is refused.
func TestFieldsAreBounded(t *testing.T) {
	t.Parallel()
	g := start(t, Options{Upstream: to(echo(t).URL)})
	const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
	for _, c := range []struct {
		before string
		fields int
		status int
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n", 999, 200}, {"GET / HTTP/1.1\r\nHost: a\r\n", 1000, 431},
		{chunked, 1000, 200}, {chunked, 1001, 400},
	} {
		conn := g.dial()
		g.send(conn, c.before+strings.Repeat("X: y\r\n", c.fields)+"\r\n")
		if res, _ := g.answer(bufio.NewReader(conn)); res.StatusCode != c.status {
			t.Errorf("%.20q and %d fields: %s", c.before, c.fields, res.Status)
		}
	}
}
