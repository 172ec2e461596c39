package httpgate

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir"
)

// TestEarlyHintsAndHTTP10: what an informational answer says is no part of the final one, for a client that knows none.
func TestEarlyHintsAndHTTP10(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "hello")
	})
	g := start(t, Options{Upstream: to(up.URL)})
	c := g.dial()
	g.send(c, "GET / HTTP/1.0\r\nHost: a\r\n\r\n")
	res, body := g.answer(bufio.NewReader(c))
	if res.StatusCode != 200 || body != "hello" || res.Header.Get("Link") != "" {
		t.Errorf("%s %q %v", res.Status, body, res.Header)
	}
}

// TestEmptyLines: empty lines before a request make no timeout longer.
func TestEmptyLines(t *testing.T) {
	t.Parallel()
	g := start(t, Options{Upstream: to(echo(t).URL),
		Timeouts: Timeouts{Idle: weir.Duration(time.Second), Header: weir.Duration(time.Second)}})
	for _, begin := range []string{"", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost"} {
		c := g.dial()
		g.send(c, begin)
		if strings.HasSuffix(begin, "\r\n\r\n") {
			g.answer(bufio.NewReader(c))
		}
		late := time.Now().Add(patience)
		for err := error(nil); err == nil || timedOut(err); {
			if time.Now().After(late) {
				t.Fatalf("%q: the connection stays open", begin)
			}
			if !strings.HasSuffix(begin, "Host") {
				_, _ = io.WriteString(c, "\r\n")
			}
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, err = c.Read(make([]byte, 1))
		}
	}
}

// TestOtherExpectations: a request that expects what no server knows is answered like any other that is refused.
func TestOtherExpectations(t *testing.T) {
	g := start(t, Options{Upstream: to(echo(t).URL)})
	res, body := g.do(g.request("GET", "/", nil, "Expect", "foo"))
	id := res.Header.Get("X-Request-Id")
	if res.StatusCode != http.StatusExpectationFailed || id == "" || problemOf(t, body)["request_id"] != id {
		t.Errorf("%s %q %q", res.Status, id, body)
	}
	if line := g.accessLine(id); line["status"] != 417.0 {
		t.Error(line)
	}
	c := g.dial() // nobody knows whether a body follows
	g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\nContent-Length: 3\r\n\r\n")
	if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != http.StatusExpectationFailed || !res.Close {
		t.Errorf("with a body: %s, closes %v", res.Status, res.Close)
	}
	g.seen.mu.Lock()
	defer g.seen.mu.Unlock()
	if g.seen.served[http.StatusExpectationFailed] != 2 {
		t.Error(g.seen.served)
	}
}
