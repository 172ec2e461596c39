package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/http1"
)

func TestKeepAlive(t *testing.T) {
	noneLeft(t)
	var conns = make(chan string, 100)
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conns <- r.RemoteAddr
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %q", r.Method, r.Host, r.RequestURI, body)
	})
	p := start(t, To(up.URL+"/base"))
	for _, c := range []struct{ method, body, want string }{
		{"GET", "", `GET service.example /base/a%2Fb?x=1 ""`},
		{"POST", "hello", `POST service.example /base/a%2Fb?x=1 "hello"`},
		{"POST", "", `POST service.example /base/a%2Fb?x=1 ""`},
		{"HEAD", "", ""},
		{"DELETE", "", `DELETE service.example /base/a%2Fb?x=1 ""`},
	} {
		var body io.Reader
		if c.body != "" {
			body = strings.NewReader(c.body)
		}
		res, got, err := p.do(request(t, c.method, "/a%2Fb?x=1", body))
		if err != nil || res.StatusCode != 200 || got != c.want {
			t.Errorf("%s: %q %v", c.method, got, err)
		}
		if p.idle() != 1 {
			t.Errorf("%s: %d idle", c.method, p.idle())
		}
	}
	first := <-conns
	for range 4 {
		if other := <-conns; other != first {
			t.Error("another connection")
		}
	}
	p.Close()
	if s := p.Stats()[0]; s.Idle != 0 || s.Requests != 5 || s.Failures != 0 || !s.Well {
		t.Errorf("%+v", s)
	}
	if _, body, err := p.get("/late"); err != nil || !strings.Contains(body, "late") || p.idle() != 0 {
		t.Errorf("after the close: %q %v", body, err)
	}
}

// What may come instead of a proper answer, and what is made of it.
func TestAnswers(t *testing.T) {
	noneLeft(t)
	long := strings.Repeat("x", 40_000)
	for name, c := range map[string]struct {
		say   string
		body  string
		why   string // of a failure; "" for none
		reuse bool
	}{
		"length": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", "", true},
		"long":   {"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + long, long, "", true},
		"same length twice": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhello", "hello",
			"", true},
		"chunked": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\n, " +
			"y\r\n0\r\n\r\n", "hello, y", "", true},
		"chunked, long": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n9c40\r\n" + long +
			"\r\n0\r\n\r\n", long, "", true},
		"until close": {"HTTP/1.1 200 OK\r\n\r\nhello", "hello", "", false},
		"HTTP/1.0":    {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", "", false},
		"HTTP/1.0, kept": {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
			"hello", "", true},
		"close": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x, Close\r\n\r\nhello",
			"hello", "", false},
		"no reason":         {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "", "", true},
		"204":               {"HTTP/1.1 204 No Content\r\n\r\n", "", "", true},
		"304 with a length": {"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", "", "", true},
		"204 with a body":   {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", "", "", false},
		"after informational": {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: " +
			"a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", "", true},
		"more than its length": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", "he", "", false},
		"two answers": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 " +
			"OK\r\nContent-Length: 4\r\n\r\nevil", "ok", "", false},
		"a second after a chunk": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n", "ok", "", false},
		"nothing":              {"", "", FailBroken, false},
		"half a head":          {"HTTP/1.1 200 O", "", FailBroken, false},
		"less than its length": {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", "hello", FailBroken, false},
		"half a chunk": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "hel", FailBroken,
			false},
		"no last chunk": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "hello",
			FailBroken, false},
		"no end of the trailers": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", "hello",
			FailBroken, false},
		"garbage":                {"220 smtp.example.com ESMTP\r\n", "", FailMalformed, false},
		"garbage without an end": {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", FailMalformed, false},
		"HTTP/2":                 {"HTTP/2 200 OK\r\n\r\n", "", FailMalformed, false},
		"no status":              {"HTTP/1.1 OK\r\n\r\n", "", FailMalformed, false},
		"status 99":              {"HTTP/1.1 099 Low\r\n\r\n", "", FailMalformed, false},
		"bare LF":                {"HTTP/1.1 200 OK\nContent-Length: 0\n\n\r\n\r\n", "", FailMalformed, false},
		"bare CR in a value":     {"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", "", FailMalformed, false},
		"NUL in a value":         {"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n", "", FailMalformed, false},
		"space before the colon": {"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", "", FailMalformed, false},
		"a folded line":          {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "", FailMalformed, false},
		"no name":                {"HTTP/1.1 200 OK\r\n: b\r\n\r\n", "", FailMalformed, false},
		"two lengths": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "",
			FailMalformed, false},
		"lengths in a list": {"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", "", FailMalformed, false},
		"negative length":   {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", "", FailMalformed, false},
		"signed length":     {"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", "", FailMalformed, false},
		"huge length": {"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nhello", "",
			FailMalformed, false},
		"length and chunked": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n", "", FailMalformed, false},
		"no length and chunked": {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n", "", FailMalformed, false},
		"gzip, chunked": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "",
			FailMalformed, false},
		"chunked twice": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n", "", FailMalformed, false},
		"HTTP/1.0 chunked": {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", FailMalformed,
			false},
		"no chunk size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nhello", "", FailMalformed,
			false},
		"odd chunk size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
			"", FailMalformed, false},
		"huge chunk size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\nhello",
			"", FailMalformed, false},
		"a chunk beyond its size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello, you\r\n0\r\n\r\n",
			"hello", FailMalformed, false},
		"bare LF after a size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", "",
			FailMalformed, false},
		"trailer that frames": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
			"", FailMalformed, false},
		"upgrade unasked": {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "",
			FailMalformed, false},
		"103 with a body": {"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nhello", "", FailMalformed, false},
		"informational for ever": {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxEarly+1), "", FailMalformed,
			false},
		"headers at the bound": {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + strings.Repeat("X: y\r\n", maxFields-1) +
			"\r\n", "", "", true},
		"too many headers": {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + strings.Repeat("X: y\r\n", maxFields) +
			"\r\n", "", FailHeader, false},
		"headers too large": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxHead) + "\r\n\r\n", "", FailHeader,
			false},
		"large headers": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: " + strings.Repeat("y", maxHead-100) +
			"\r\n\r\nok", "ok", "", true},
		"too many trailers": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" +
			strings.Repeat("X: y\r\n", maxFields+1) + "\r\n", "", FailHeader, false},
		"trailers at the bound": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " +
			strings.Repeat("y", maxTrailer-7) + "\r\n\r\n", "", "", true},
		"trailers too large": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " +
			strings.Repeat("y", maxTrailer-6) + "\r\n\r\n", "", FailHeader, false},
		"a chunk line too long": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;" +
			strings.Repeat("x", 4096), "", FailMalformed, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pieces := range []bool{false, true} {
				if pieces && len(c.say) > 10_000 {
					continue
				}
				hangUp := 1
				if c.reuse {
					hangUp = 0
				}
				url := says(t, c.say, hangUp)
				if pieces { // byte by byte
					url = script(t, func(conn net.Conn, br *bufio.Reader) {
						for {
							if _, err := http.ReadRequest(br); err != nil {
								return
							}
							for i := range len(c.say) {
								if _, err := conn.Write([]byte{c.say[i]}); err != nil {
									return
								}
							}
							if !c.reuse {
								return
							}
						}
					})
				}
				p := start(t, To(url))
				for again := range 2 { // the second time on the same connection, if it is good
					if again == 1 && pieces && !c.reuse {
						break // what comes too late may look like the answer to another request, whoever reads it
					}
					_, body, err := p.get("/")
					failure, _ := errors.AsType[*Error](err)
					switch {
					case c.why == "" && err != nil, c.why != "" && (failure == nil || failure.Why != c.why):
						t.Errorf("%v, want %q", err, c.why)
					case body != c.body:
						t.Errorf("%.50q", body)
					}
					if n := p.idle(); !pieces && c.reuse != (n == 1) {
						t.Errorf("%d idle", n)
					}
				}
			}
		})
	}
}

// A head whose end will never come as we read it is refused when that is known, and not when the time is over.
func TestBareLF(t *testing.T) {
	for name, head := range map[string]string{
		"in all lines": "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"at the end":   "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n", "in one": "HTTP/1.1 200 OK\r\nX: y\nZ",
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan bool)
			url := script(t, func(c net.Conn, br *bufio.Reader) {
				if _, err := http.ReadRequest(br); err == nil {
					_, _ = io.WriteString(c, head)
				}
				<-over
			})
			defer close(over)
			_, _, err := start(t, To(url)).get("/")
			if failure, ok := errors.AsType[*Error](err); !ok || failure.Why != FailMalformed {
				t.Error(err)
			}
		})
	}
}

func TestHead(t *testing.T) {
	p := start(t, To(says(t, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", 0)))
	for range 2 {
		res, body, err := p.do(request(t, "HEAD", "/", nil))
		if err != nil || body != "" || res.ContentLength != 500 || p.idle() != 1 {
			t.Errorf("%v %q %v", res, body, err)
		}
	}
}

func TestTrailers(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
		w.Header().Set("X-Sum", r.Trailer.Get("X-Digest"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "late")
	})
	for _, url := range []string{up.URL, strings.Replace(up.URL, "http:", "h2c:", 1)} {
		p := start(t, To(url))
		r := request(t, "POST", "/", io.MultiReader(strings.NewReader("hello, "), strings.NewReader("you")))
		r.Trailer = http.Header{"X-Digest": {"abc"}}
		res, body, err := p.do(r)
		if err != nil || body != "hello, you" || res.Trailer.Get("X-Sum") != "abc" ||
			res.Trailer.Get("X-Late") != "late" {
			t.Errorf("%s: %q %v %v", url, body, res, err)
		}
	}
}

// TestTrailersAreAnnounced: both sides are told the names of trailers with the head, and no name that frames a message.
func TestTrailersAreAnnounced(t *testing.T) {
	r := request(t, "POST", "/", io.MultiReader(strings.NewReader("hello")))
	r.Trailer = http.Header{"X-Digest": nil, "Content-Length": nil, "Transfer-Encoding": nil}
	if head := string(appendRequest(nil, &target{host: "b"}, &Call{Request: r})); !strings.Contains(head,
		"\r\nTrailer: X-Digest\r\n") {
		t.Errorf("%q", head)
	}
	p := start(t,
		To(says(t,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum, "+
				"Content-Length\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", 0)))
	res, err := p.RoundTrip(request(t, "GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, told := res.Trailer["X-Sum"]; !told || len(res.Trailer) != 1 || res.Header.Get("Trailer") != "" {
		t.Errorf("%v, %v", res.Trailer, res.Header)
	}
}

// TestLengthOfNothing: methods that come with a body say so where it is empty (RFC 9110, section 8.6), others say
// nothing.
func TestLengthOfNothing(t *testing.T) {
	for method, says := range map[string]bool{"POST": true, "PUT": true, "PATCH": true, "GET": false, "HEAD": false,
		"DELETE": false} {
		head := string(appendRequest(nil, &target{host: "b"}, &Call{Request: request(t, method, "/", nil)}))
		if strings.Contains(head, "Content-Length: 0\r\n") != says || strings.Contains(head, "Transfer-Encoding") {
			t.Errorf("%q", head)
		}
	}
}

// TestConnectionIsFree: a connection serves the next request as soon as the last byte of a body was read, or when a
// body that has come is not wanted.
func TestConnectionIsFree(t *testing.T) {
	noneLeft(t)
	p := start(t, To(says(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 0)))
	for range 2 {
		res, err := p.RoundTrip(request(t, "GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		for n := 0; n < 5; {
			k, err := res.Body.Read(buf[n:])
			if n += k; (err == io.EOF) != (n == 5) {
				t.Fatalf("%q, %v", buf[:n], err)
			}
		}
		if p.idle() != 1 {
			t.Errorf("read, and %d idle", p.idle())
		}
		_ = res.Body.Close()
		if res, err = p.RoundTrip(request(t, "GET", "/", nil)); err != nil {
			t.Fatal(err)
		}
		if n, all := res.Body.(*Body).Buffered(); n != 5 || !all {
			t.Fatalf("%d have come", n)
		}
		_ = res.Body.Close()
		if p.idle() != 1 {
			t.Errorf("not wanted, and %d idle", p.idle())
		}
	}
}

func TestUnix(t *testing.T) {
	p := start(t,
		To(unixSocket(t,
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))))
	for range 2 {
		if _, body, err := p.get("/"); err != nil || body != "service.example" || p.idle() != 1 {
			t.Errorf("%q %v", body, err)
		}
	}
}

// A server that does not answer in time.
func TestSlow(t *testing.T) {
	noneLeft(t)
	for _, body := range []string{"", "hello"} {
		silent := script(t, func(_ net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) })
		// below and above the grace
		for _, patience := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond} {
			p := start(t, Options{Servers: []string{silent}, Timeouts: short(patience)})
			var src io.Reader
			if body != "" {
				src = strings.NewReader(body)
			}
			_, _, err := p.do(request(t, "POST", "/", src))
			if failure, ok := errors.AsType[*Error](err); !ok || failure.Why != FailTimeout || !failure.Timeout() ||
				!failure.Reached {
				t.Errorf("%v", err)
			}
		}
	}
	// A body may take its time.
	next := make(chan bool)
	slow := script(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
		<-next
		_, _ = io.WriteString(c, "k")
	})
	timeout := 250 * time.Millisecond // for the head, which is there at once
	var res *http.Response
	for ; ; timeout *= 2 { // unless the machine is busy
		var err error
		p := start(t, Options{Servers: []string{slow}, Timeouts: short(timeout)})
		if res, err = p.RoundTrip(request(t, "GET", "/", nil)); err == nil {
			break
		}
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Why != FailTimeout || timeout > time.Minute {
			t.Fatal(err)
		}
	}
	// When a server that never answers is given up, the timeout for the head has long passed.
	never := start(t, Options{Servers: []string{script(t, func(_ net.Conn, br *bufio.Reader) {
		_, _ = io.Copy(io.Discard, br)
	})}, Timeouts: short(timeout * 5 / 4)})
	if _, _, err := never.get("/"); err == nil {
		t.Fatal("answered")
	}
	close(next)
	if body, err := io.ReadAll(res.Body); string(body) != "ok" || err != nil {
		t.Errorf("%q %v", body, err)
	}
	_ = res.Body.Close()
}

// The client leaves while the server thinks, or in the middle of a body.
func TestLeaving(t *testing.T) {
	noneLeft(t)
	for name, say := range map[string]string{"before the head": "",
		"in the body": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhe"} {
		t.Run(name, func(t *testing.T) {
			asked, gone := make(chan bool, 1), make(chan bool, 1)
			url := script(t, func(c net.Conn, br *bufio.Reader) {
				_, _ = http.ReadRequest(br)
				_, _ = io.WriteString(c, say)
				asked <- true
				_, _ = br.ReadByte()
				gone <- true
			})
			p := start(t, To(url))
			ctx, cancel := context.WithCancelCause(context.Background())
			left := errors.New("left")
			go func() {
				<-asked
				cancel(left)
			}()
			_, _, err := p.do(request(t, "GET", "/", nil).WithContext(ctx))
			if !errors.Is(err, left) {
				t.Errorf("%v", err)
			}
			receive(t, gone)
			if p.idle() != 0 || p.Stats()[0].Failures != 0 {
				t.Errorf("%+v", p.Stats())
			}
		})
	}
}

// The server answers before it has read the body, and hangs up.
func TestEarlyAnswer(t *testing.T) {
	noneLeft(t)
	for _, close := range []string{"", "Connection: close\r\n"} {
		answered := make(chan bool, 1)
		url := script(t, func(c net.Conn, br *bufio.Reader) {
			_, _ = http.ReadRequest(br)
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\n"+close+"Content-Length: 2\r\n\r\nno")
			<-answered
		})
		p := start(t, To(url))
		src, body := io.Pipe()
		go func() { _, _ = body.Write(make([]byte, 1<<20)) }() // and no end
		r := request(t, "POST", "/", src)
		res, got, err := p.do(r)
		if err != nil || res.StatusCode != 413 || got != "no" {
			t.Errorf("%v %q %v", res, got, err)
		}
		answered <- true
		if p.idle() != 0 {
			t.Error("kept")
		}
		_ = src.Close()
		_ = body.Close()
	}
}

func TestContinue(t *testing.T) {
	noneLeft(t)
	read := make(chan bool, 10)
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	p := start(t, To(up.URL))
	p.expect = time.Minute
	for path, want := range map[string]string{"/yes": "hello", "/no": ""} {
		r := request(t, "PUT", path, noticed{strings.NewReader("hello"), read})
		r.ContentLength = 5
		r.Header.Set("Expect", "100-continue")
		_, body, err := p.do(r)
		if err != nil || body != want {
			t.Errorf("%s: %q %v", path, body, err)
		}
		if p.idle(); (len(read) > 0) != (want != "") {
			t.Errorf("%s: %d reads", path, len(read))
		}
		for len(read) > 0 {
			<-read
		}
	}
}

// A server that never says whether it wants a body is waited for once, until it says so again.
func TestContinueThatNeverComes(t *testing.T) {
	var says atomic.Bool
	url := script(t, func(c net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if says.Load() {
				_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	p := start(t, To(url))
	for i, c := range []struct{ says, silent bool }{{false, true}, {false, true}, {true, false}, {false, true}} {
		says.Store(c.says)
		r := request(t, "PUT", "/", strings.NewReader("hello"))
		r.Header.Set("Expect", "100-continue")
		if _, body, err := p.do(r); err != nil || body != "ok" {
			t.Fatalf("%q %v", body, err)
		}
		if got := p.servers()[0].silent.Load(); got != c.silent {
			t.Errorf("request %d: silent %v, want %v", i, got, c.silent)
		}
	}
}

type noticed struct {
	io.Reader
	read chan bool
}

func (n noticed) Read(p []byte) (int, error) {
	n.read <- true
	return n.Reader.Read(p)
}

// A body that fails is the client's own fault, and the server must not take what came for all of it.
func TestFailingBody(t *testing.T) {
	noneLeft(t)
	broken := errors.New("broken")
	for _, length := range []int64{-1, 100} {
		whole := make(chan bool, 1)
		url := script(t, func(_ net.Conn, br *bufio.Reader) {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, err = io.Copy(io.Discard, r.Body)
			whole <- err == nil
		})
		p := start(t, To(url))
		r := request(t, "PUT", "/", io.MultiReader(strings.NewReader("hello"), failing{broken}))
		r.ContentLength = length
		if _, _, err := p.do(r); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		if receive(t, whole) {
			t.Error("the server saw a whole request")
		}
		if p.idle() != 0 || p.Stats()[0].Failures != 0 {
			t.Errorf("%+v", p.Stats())
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestUpgrade(t *testing.T) {
	noneLeft(t)
	ended := make(chan error, 1)
	url := script(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhi ")
		_, err := io.Copy(c, br)
		ended <- err
	})
	p := start(t, To(url))
	r := request(t, "GET", "/", nil)
	r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"echo"}
	res, err := p.RoundTrip(r)
	if err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	if s := p.Stats()[0]; s.Active != 1 {
		t.Errorf("%+v", s)
	}
	tunnel := res.Body.(io.ReadWriteCloser)
	_, _ = io.WriteString(tunnel, "hello")
	_ = tunnel.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(tunnel); string(got) != "hi hello" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server was not told that there is no more: %v", err)
	}
	_ = tunnel.Close()
	if p.idle() != 0 {
		t.Error("kept")
	}
}

// What is told of a request beside its answer.
type caller struct {
	sent  int
	early []string
}

func (c *caller) Ends() (client, local netip.AddrPort) {
	return netip.MustParseAddrPort("192.0.2.7:1234"), netip.MustParseAddrPort("192.0.2.1:80")
}
func (c *caller) Early(status int, h *http1.Fields) error {
	c.early = append(c.early, fmt.Sprint(status, h.Get("Link")))
	return nil
}
func (c *caller) Received() bool         { return true }
func (c *caller) Sent()                  { c.sent++ }
func (c *caller) Waits() context.Context { return context.Background() }

func TestCaller(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusOK)
	})
	for _, url := range []string{up.URL, strings.Replace(up.URL, "http:", "h2c:", 1)} {
		p, c := start(t, To(url)), &caller{}
		res, err := p.Do(request(t, "GET", "/", nil), c)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if c.sent == 0 || strings.Join(c.early, " ") != "103</a> 102</a>" {
			t.Errorf("%s: %+v", url, c)
		}
	}
}

func TestUnsendable(t *testing.T) {
	p := start(t, To("http://127.0.0.1:1"))
	for name, change := range map[string]func(r *http.Request){
		"method":       func(r *http.Request) { r.Method = "GET /x HTTP/1.1\r\nX:" },
		"host":         func(r *http.Request) { r.Host = "a\r\nX: y" },
		"DEL":          func(r *http.Request) { r.Host = "a\x7f" },
		"query":        func(r *http.Request) { r.URL.RawQuery = "a b" },
		"opaque":       func(r *http.Request) { r.URL.Opaque = "x" },
		"header name":  func(r *http.Request) { r.Header["X y"] = []string{"a"} },
		"header value": func(r *http.Request) { r.Header["X"] = []string{"a\r\nY: b"} },
	} {
		r := request(t, "GET", "/", nil)
		change(r)
		if _, err := p.RoundTrip(r); err == nil {
			t.Error(name)
		} else if _, ok := errors.AsType[RequestError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProxyProtocol(t *testing.T) {
	for version, want := range map[ProxyProtocol]string{
		ProxyV1: "PROXY TCP4 192.0.2.7 192.0.2.1 1234 80\r\n",
		ProxyV2: greetingV2 + "\x21\x11\x00\x0c\xc0\x00\x02\x07\xc0\x00\x02\x01\x04\xd2\x00\x50",
	} {
		got := make(chan string, 2)
		url := script(t, func(c net.Conn, br *bufio.Reader) {
			head := make([]byte, len(want))
			_, _ = io.ReadFull(br, head)
			got <- string(head)
			_, _ = http.ReadRequest(br)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		p := start(t, Options{Servers: []string{url}, ProxyProtocol: version})
		for range 2 {
			res, err := p.Do(request(t, "GET", "/", nil), &caller{})
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if head := receive(t, got); head != want || p.idle() != 0 {
				t.Errorf("%q, %d idle", head, p.idle())
			}
		}
	}
	for want, ends := range map[string][2]netip.AddrPort{
		"PROXY UNKNOWN\r\n": {},
		"PROXY TCP6 2001:db8::7 2001:db8::1 1 2\r\n": {netip.MustParseAddrPort("[2001:db8::7]:1"),
			netip.MustParseAddrPort("[2001:db8::1]:2")},
		"PROXY TCP6 2001:db8::7 ::ffff:c000:201 1 2\r\n": {netip.MustParseAddrPort("[2001:db8::7]:1"),
			netip.MustParseAddrPort("192.0.2.1:2")},
		"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\n": {netip.MustParseAddrPort("[::ffff:192.0.2.7]:1"),
			netip.MustParseAddrPort("192.0.2.1:2")},
	} {
		if got := string(AppendProxyHeader(nil, ProxyV1, ends[0], ends[1])); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := string(AppendProxyHeader(nil, ProxyV2, netip.AddrPort{}, netip.AddrPort{})); got != greetingV2+
		"\x20\x00\x00\x00" {
		t.Errorf("%q", got)
	}
}
