package httpgate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/splice"
	"weir/internal/testkit/needs"
)

// largeBody is more than sockets hold for a client that does not read, even if they have grown.
var largeBody = func() []byte {
	b := make([]byte, 24<<20)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}()

// large is an upstream that answers with so many bytes of largeBody as the path says, and counts its connections.
func large(t *testing.T) (url string, opened *atomic.Int32) {
	opened = new(atomic.Int32)
	return rawUpstream(t, func(c net.Conn) {
		opened.Add(1)
		br := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			var n int
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
			head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n", n)
			if r.URL.RawQuery == "hop" { // the length is only for the gate
				head += "Connection: Content-Length\r\n"
			}
			if _, err := io.WriteString(c, head+"\r\n"); err != nil {
				return
			}
			if _, err := c.Write(largeBody[:n]); err != nil {
				return
			}
		}
	}), opened
}

// rawUpstream is an upstream that does what it likes with its connections.
func rawUpstream(t *testing.T, serve func(c net.Conn)) (url string) {
	t.Helper()
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
				serve(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// takePipes takes so many pipes, or all that are to be had, until free is called.
func takePipes(t *testing.T, most int) (taken int, free func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	source, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var all []*splice.Pipe
	for range most {
		_, _ = source.Write([]byte("x"))
		p, err := splice.Take(raw, 1)
		if err == splice.ErrNone {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return len(all), func() {
		for _, p := range all {
			p.Free()
		}
	}
}

// pipesInUse is how many pipes somebody has.
func pipesInUse(t *testing.T) int {
	t.Helper()
	n, free := takePipes(t, splice.MaxPipes)
	free()
	return splice.MaxPipes - n
}

// Bodies that the system moves and those that are copied, as there are no pipes left, are the same to both sides:
// every byte, the connections that go on, and the access log.
func TestLargeAnswers(t *testing.T) {
	for name, taken := range map[string]int{"spliced": 0, "one pipe left": splice.MaxPipes - 1,
		"copied": splice.MaxPipes} {
		t.Run(name, func(t *testing.T) {
			n, free := takePipes(t, taken)
			defer free()
			if n != taken {
				t.Fatalf("%d of %d pipes", n, taken)
			}
			url, opened := large(t)
			g := start(t, Options{Upstream: to(url)})
			c := g.dial()
			br := bufio.NewReader(c)
			for _, n := range []int{1 << 20, worthSplicing - 1, worthSplicing, 5, 3<<20 + 1} {
				g.send(c, fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", n))
				res, body := g.answer(br)
				if res.ContentLength != int64(n) || body != string(largeBody[:n]) {
					t.Fatalf("%d bytes: %s with %d, or others", n, res.Status, len(body))
				}
				if line := g.accessLine(res.Header.Get("X-Request-Id")); line["out"] != float64(n) {
					t.Errorf("%d bytes: %v", n, line)
				}
			}
			if n := opened.Load(); n != 1 {
				t.Errorf("%d connections to the upstream", n)
			}
		})
	}
}

// A client that does not read has a pipe. It is cut off as one whose answer is copied, and the pipe is given back. One
// that reads before that gets everything.
func TestUnreadLargeAnswers(t *testing.T) {
	url, _ := large(t)
	ask := func(progress time.Duration) (*rig, net.Conn) {
		g := start(t, Options{Upstream: to(url), Timeouts: Timeouts{Progress: weir.Duration(progress)}})
		c := g.dial()
		g.send(c, fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", len(largeBody)))
		return g, c
	}
	patient, pauses := ask(time.Hour)
	needs.Wait(t, "a pipe in use", func() bool { return pipesInUse(t) == 1 })
	if _, body := patient.answer(bufio.NewReader(pauses)); body != string(largeBody) {
		t.Errorf("%d bytes after a pause, or others", len(body))
	}
	g, stops := ask(time.Second)
	needs.Wait(t, "a pipe in use", func() bool { return pipesInUse(t) == 1 })
	needs.Wait(t, "cut off", func() bool { return g.UnderWay.Load() == 0 })
	if got, _ := io.ReadAll(stops); len(got) == 0 || len(got) >= len(largeBody) {
		t.Errorf("%d bytes came to the client that did not read", len(got))
	}
	if n := pipesInUse(t); n != 0 {
		t.Errorf("%d pipes in use at the end", n)
	}
}

// What the upstream sends leaves at once, and nobody has a pipe while it says nothing.
func TestSplicedPiecesLeaveAtOnce(t *testing.T) {
	const piece, pieces = 1000, 100
	next := make(chan bool)
	g := start(t, Options{Upstream: to(rawUpstream(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", piece*pieces)
		for i := range pieces {
			<-next
			_, _ = c.Write(largeBody[i*piece : (i+1)*piece])
		}
	}))})
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil) // the head does not wait for the body
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, piece)
	for i := range pieces {
		next <- true
		if _, err := io.ReadFull(res.Body, got); err != nil || !bytes.Equal(got, largeBody[i*piece:(i+1)*piece]) {
			t.Fatalf("piece %d: %v, or other bytes", i, err)
		}
	}
	needs.Wait(t, "no pipe in use", func() bool { return pipesInUse(t) == 0 })
}

// A body that breaks off never looks whole, however it is passed on.
func TestSplicedBodyBreaksOff(t *testing.T) {
	g := start(t, Options{Upstream: to(rawUpstream(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(largeBody))
		_, _ = c.Write(largeBody[:1<<20])
	}))})
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(body, largeBody[:1<<20]) {
		t.Errorf("%d bytes, or others: %v", len(body), err)
	}
	if line := g.accessLine(res.Header.Get("X-Request-Id")); line["out"] != float64(1<<20) {
		t.Errorf("%v", line)
	}
}

// A client that leaves is noticed, whether the gate waits for it or for the upstream, and the upstream's connection is
// closed.
func TestSplicedClientLeaves(t *testing.T) {
	for name, sends := range map[string]int{"the upstream waits": len(largeBody), "the upstream is silent": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			left := make(chan error, 1)
			g := start(t, Options{Upstream: to(rawUpstream(t, func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(largeBody)+1)
				_, err := c.Write(largeBody[:sends])
				if err == nil {
					_, err = c.Read(make([]byte, 1))
				}
				left <- err
			}))})
			c := g.dial()
			g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, err := io.ReadFull(c, make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			if err := receive(t, left); err == nil {
				t.Error("the upstream read something")
			}
			needs.Wait(t, "over", func() bool { return g.UnderWay.Load() == 0 && pipesInUse(t) == 0 })
		})
	}
}

// Answers that are counted, cut into chunks or encrypted are not moved by the system: a client that has stopped to read
// has no pipe.
func TestNotSpliced(t *testing.T) {
	url, _ := large(t)
	const part = 1 << 20
	count := &meter{newThrottle(nil), func(int64, time.Time) time.Time { return time.Time{} }}
	a := newAuthority(t, "an authority")
	secure := startTLS(t, a, Options{Upstream: to(url)})
	plain := start(t, Options{Upstream: to(url)})
	for name, c := range map[string]struct {
		g     *rig
		query string
		dial  func() net.Conn
	}{
		"metered":            {start(t, Options{Upstream: to(url)}, count), "", nil},
		"without its length": {plain, "?hop", nil},
		"inside TLS":         {secure, "", func() net.Conn { return secure.dialTLS(a, "http/1.1") }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.dial == nil {
				c.dial = c.g.dial
			}
			ask := func(n int) net.Conn {
				conn := c.dial()
				c.g.send(conn, fmt.Sprintf("GET /%d%s HTTP/1.1\r\nHost: a\r\n\r\n", n, c.query))
				return conn
			}
			if res, body := c.g.answer(bufio.NewReader(ask(part))); body != string(largeBody[:part]) ||
				(res.ContentLength < 0) != (c.query != "") {
				t.Errorf("%d bytes of %d, or others", len(body), res.ContentLength)
			}
			if _, err := io.ReadFull(ask(len(largeBody)), make([]byte, 4*part)); err != nil {
				t.Fatal(err)
			}
			if n := pipesInUse(t); n != 0 {
				t.Errorf("%d pipes in use", n)
			}
		})
	}
}
