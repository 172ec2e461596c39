package httpgate

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"weir"
	"weir/internal/testkit/needs"
)

// hasty is an upstream that answers as soon as it has read a head.
func hasty(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					_, _ = io.Copy(io.Discard, c)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestAnsweredBeforeTheBody: of a body that is large, or never comes, nothing is waited for after the answer. The
// client reads the answer and then the end, and no reset, which would overtake the answer on its way.
func TestAnsweredBeforeTheBody(t *testing.T) {
	g := start(t, Options{Upstream: to(hasty(t))})
	for range 3 {
		c := g.dial()
		br := bufio.NewReader(c)
		g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n"+strings.Repeat("x", 20_000))
		if res, body := g.answer(br); res.StatusCode != 200 || body != "ok" {
			t.Errorf("%s %q", res.Status, body)
		}
		if rest, err := io.ReadAll(br); err != nil || len(rest) > 0 {
			t.Errorf("behind the answer: %q, %v", rest, err)
		}
		_ = c.Close()
	}
	needs.Wait(t, "all closed", func() bool { return g.Open.Load() == 0 })
}

// TestRefusedWithASmallBody: a small body is read to its end after the refusal, in however many pieces it comes, and
// the connection goes on to the next request. If it never comes to its end, the connection does.
func TestRefusedWithASmallBody(t *testing.T) {
	up := echo(t)
	g := start(t, Options{Upstream: to(up.URL)}, newThrottle(func(ev *weir.Event, a *weir.Answer) error {
		if ev.Route.Method == "POST" {
			return overLimit(ev, a)
		}
		return nil
	}))
	third := strings.Repeat("x", smallBody/3)
	for range 3 {
		c := g.dial()
		br := bufio.NewReader(c)
		refused := func() {
			g.send(c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", 3*len(third), third))
			if res, _ := g.answer(br); res.StatusCode != 429 {
				t.Fatal(res.Status)
			}
		}
		refused()
		g.send(c, third)
		g.send(c, third)
		g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if res, _ := g.answer(br); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
		refused()
		_ = c.Close()
	}
	needs.Wait(t, "all closed", func() bool { return g.Open.Load() == 0 })
}
