package httpgate

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

func TestConnectionsBound(t *testing.T) {
	g := start(t, Options{Upstream: to(echo(t).URL), Bounds: Bounds{Connections: 2}})
	for range 2 {
		c := g.dial()
		g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
		defer c.Close()
	}
	third := g.dial()
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("the one too many was served")
	}
	needs.Wait(t, "one turned away", func() bool { return g.seen.bounds(BoundConnections) == 1 })
	if g.Open.Load() != 2 {
		t.Errorf("%d open", g.Open.Load())
	}
}

// TestNoSourceKeepsOthersOut: one address has all connections, and all TLS handshakes, and says nothing. Others are
// served, and it loses as many.
func TestNoSourceKeepsOthersOut(t *testing.T) {
	a := newAuthority(t, "ca")
	for name, c := range map[string]struct {
		bounds Bounds
		tls    bool
		bound  string
		greedy string
		header string
	}{
		"connections": {Bounds{Connections: 8}, false, BoundConnections, "127.0.0.2", ""},
		"handshakes":  {Bounds{Handshakes: 8}, true, BoundHandshakes, "127.0.0.2", ""},
		"handshakes behind a balancer": {Bounds{Handshakes: 8}, true, BoundHandshakes, "198.51.100.2",
			"PROXY TCP4 198.51.100.%d 192.0.2.1 1 2\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Upstream: to(echo(t).URL), Bounds: c.bounds}
			if c.header != "" {
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				o.ProxyProtocol.From = o.TrustedProxies
			}
			g := start(t, o)
			if c.tls {
				g = startTLS(t, a, o)
			}
			from := func(host int) net.Conn {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(host))}}
				conn, err := d.Dial("tcp", g.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				_ = conn.SetDeadline(time.Now().Add(patience))
				if c.header != "" {
					g.send(conn, fmt.Sprintf(c.header, host))
				}
				return conn
			}
			crowd := &g.crowd
			if c.tls {
				crowd = &g.hasty
			}
			for range 8 {
				from(2)
			}
			needs.Wait(t, "eight", func() bool {
				return crowd.Full(netip.MustParseAddr(c.greedy), 8) && !crowd.Full(netip.MustParseAddr("192.0.2.9"), 8)
			})
			for host := 3; host < 7; host++ {
				conn := from(host)
				if c.tls {
					conn = tls.Client(conn, &tls.Config{RootCAs: a.Pool, ServerName: "www.example.com"})
				}
				g.send(conn, "GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n")
				if res, _ := g.answer(bufio.NewReader(conn)); res.StatusCode != 200 {
					t.Error(res.Status)
				}
			}
			if n := g.seen.bounds(c.bound); n == 0 {
				t.Error("it is not counted")
			}
		})
	}
}

func TestConnectionPlaceIsGivenBack(t *testing.T) {
	g := start(t, Options{Upstream: to(echo(t).URL), Bounds: Bounds{Connections: 1}})
	for range 3 {
		c := g.dial()
		g.send(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
		_ = c.Close()
		needs.Wait(t, "place free", func() bool { return g.Open.Load() == 0 })
	}
}

func TestRequestsBound(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: to(echo(t).URL), Bounds: Bounds{Requests: 1}}, l)
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	turn := receive(t, l.Turns)
	res, body := g.do(g.request("GET", "/", nil))
	if doc := problemOf(t, body); res.StatusCode != 503 || doc["reason"] != "overload" ||
		doc["policy"] != "bounds.requests" || res.Header.Get("Retry-After") != "1" {
		t.Errorf("%v %s", res.Status, body)
	}
	turn.Grant()
	if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	if g.seen.bounds(BoundRequests) != 1 {
		t.Error("not counted")
	}
}

func TestWaitingBound(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: to(echo(t).URL), Bounds: Bounds{Waiting: 1}}, l)
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	turn := receive(t, l.Turns)
	needs.Wait(t, "waiting", func() bool { return g.waiting.Len() == 1 })
	res, body := g.do(g.request("GET", "/", nil))
	if doc := problemOf(t, body); res.StatusCode != 503 || doc["policy"] != "bounds.waiting" {
		t.Errorf("%v %s", res.Status, body)
	}
	if o := receive(t, l.Settled); o.Done {
		t.Error("charged")
	}
	turn.Grant()
	if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

func TestBodyBound(t *testing.T) {
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: to(echo(t).URL), Bounds: Bounds{Body: 10}}, admit)
	for _, c := range []struct {
		body   io.Reader
		status int
	}{
		{strings.NewReader("0123456789"), 200},
		{strings.NewReader("0123456789a"), 413},
		{io.MultiReader(strings.NewReader("0123456789")), 200},  // chunked
		{io.MultiReader(strings.NewReader("0123456789a")), 413}, // chunked
	} {
		res, body := g.do(g.request("POST", "/", c.body))
		if res.StatusCode != c.status {
			t.Errorf("%v %s, want %d", res.Status, body, c.status)
		}
	}
	if g.seen.bounds(BoundBody) != 2 {
		t.Errorf("%d counted", g.seen.bounds(BoundBody))
	}
}

// The timeouts of slow clients are the operating system's: real time, long enough for what is to come in time.
func TestSlowClients(t *testing.T) {
	quick := weir.Duration(time.Second)
	g := start(t, Options{Upstream: to(echo(t).URL), Timeouts: Timeouts{Header: quick, Progress: quick}})
	t.Run("slow headers", func(t *testing.T) {
		c := g.dial()
		g.send(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow:")
		rest, _ := io.ReadAll(c)
		if strings.HasPrefix(string(rest), "HTTP/1.1 200") {
			t.Errorf("%q", rest)
		}
	})
	t.Run("slow headers of a second request", func(t *testing.T) {
		c := g.dial()
		g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		br := bufio.NewReader(c)
		g.answer(br)
		g.send(c, "GET / HTTP/1.1\r\nHost")
		_, _ = io.ReadAll(br)
	})
	t.Run("slow body", func(t *testing.T) {
		c := g.dial()
		g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello")
		br := bufio.NewReader(c)
		res, body := g.answer(br)
		if res.StatusCode != 408 {
			t.Errorf("%v %s", res.Status, body)
		}
		if _, err := br.ReadByte(); err == nil {
			t.Error("the connection goes on")
		}
	})
	t.Run("a client that reads nothing", func(t *testing.T) {
		asked := make(chan bool, 1)
		flood := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
			asked <- true
			buf := make([]byte, 1<<20)
			for {
				if _, err := w.Write(buf); err != nil {
					return
				}
			}
		})
		g := start(t, Options{Upstream: to(flood.URL), Timeouts: Timeouts{Progress: quick}})
		c := g.dial()
		g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		receive(t, asked)
		needs.Wait(t, "cut off", func() bool { return g.UnderWay.Load() == 0 })
	})
	needs.Wait(t, "all closed", func() bool { return g.Open.Load() == 0 })
}

// A request that waits in line may wait longer than any progress timeout.
func TestWaitingIsNotSlow(t *testing.T) {
	const timeout = time.Second
	l := newLine()
	g := start(t, Options{Upstream: to(echo(t).URL),
		Timeouts: Timeouts{Header: weir.Duration(timeout), Progress: weir.Duration(timeout)}}, l)
	c := g.dial()
	g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
	turn := receive(t, l.Turns)
	passed := make(chan bool)
	time.AfterFunc(timeout*5/4, func() { close(passed) }) // in real time
	<-passed
	turn.Grant()
	if res, body := g.answer(bufio.NewReader(c)); res.StatusCode != 200 || body != "hello" {
		t.Errorf("%v %q", res.Status, body)
	}
}

// A refused upload is not read: the answer comes while the client has most of it yet to send.
func TestRefusedUpload(t *testing.T) {
	g := start(t, Options{Upstream: to("http://127.0.0.1:1")}, newThrottle(overLimit))
	for name, head := range map[string]string{
		"length":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nhello",
		"chunked":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\nhello",
		"expecting": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := g.dial()
			g.send(c, head)
			br := bufio.NewReader(c)
			res, _ := g.answer(br)
			if res.StatusCode != 429 || !res.Close {
				t.Errorf("%v, close %v", res.Status, res.Close)
			}
			if _, err := br.ReadByte(); err == nil {
				t.Error("the connection goes on")
			}
		})
	}
	t.Run("a small body keeps the connection", func(t *testing.T) {
		c := g.dial()
		br := bufio.NewReader(c)
		for range 3 {
			g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
			if res, _ := g.answer(br); res.StatusCode != 429 || res.Close {
				t.Fatalf("%v, close %v", res.Status, res.Close)
			}
		}
	})
	needs.Wait(t, "all closed", func() bool { return g.UnderWay.Load() == 0 })
}
