package httpgate

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// Nobody tells the upstream another story than the gate goes by: not by fields it does not write itself, not by names
// that are the same to many servers, not behind the body, and not by the target.
func TestUpstreamHearsOneStory(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int
	}{
		{"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Forwarded-For, Forwarded, " +
			"X-Request-Id, Authorization\r\n\r\n" +
			"0\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Request-Id: evil\r\nAuthorization: " +
			"evil\r\n\r\n", 200},
		{"GET /x HTTP/1.1\r\nHost: a\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-Port: 6666666\r\nX-Forwarded-Prefix: " +
			"/evil\r\nX_Forwarded_For: 6.6.6.6\r\n" +
			"X_Request_Id: evil\r\n\r\n", 200},
		{"GET /x HTTP/1.1\r\nHost: a\r\nContent_Length: 6666666\r\nTransfer_Encoding: evil\r\n\r\n", 200},
		{"GET http://a\"<evil>/x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"GET http://a%E2%80%A8evil/x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	} {
		rec := record(t)
		g := start(t, Options{Upstream: to("http://" + rec.Addr().String())})
		conn := g.dial()
		g.send(conn, c.in)
		res, _ := g.answer(bufio.NewReader(conn))
		if res.StatusCode != c.want {
			t.Errorf("%.60q: %s, want %d", c.in, res.Status, c.want)
		}
		if c.want != http.StatusOK {
			continue
		}
		if got := rec.got(); strings.Contains(got, "666666") || strings.Contains(got, "6.6.6.6") ||
			strings.Contains(got, "evil") {
			t.Errorf("%.60q goes on as\n%s", c.in, got)
		}
	}
}

// A connection that was accepted before the gate stops is answered, although its request comes only then.
func TestStopAwaitsTheFirstRequest(t *testing.T) {
	g := start(t, Options{Upstream: to(echo(t).URL)})
	g.patience = time.Hour // unless it is answered, the stop takes until its context ends
	client, err := net.Dial("tcp", g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	needs.Wait(t, "accepted", func() bool { return g.Open.Load() > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(ctx) }()
	<-g.Serving.Done()
	needs.Wait(t, "the gate drains", g.draining.Load)
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(client)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("%.60q, %v", answer, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A connection that has just begun when the gate stops does not keep it from stopping until it has been idle for long.
func TestStopMeetsANewConnection(t *testing.T) {
	g := start(t, Options{Upstream: to(echo(t).URL)})
	g.patience = time.Millisecond
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		l.Close()
		if err != nil {
			t.Fatal(err)
		}
		c := newConn(g.Gate, accepted.(socket), peerOf(accepted.(socket)))
		g.Open.Add(1)
		g.speak(c)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // less than a connection may be idle
		if err := g.drain(ctx); err != nil {
			t.Errorf("the stop waits for an idle connection: %v", err)
		}
		cancel()
		client.Close()
	}
}
