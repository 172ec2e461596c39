package httpgate

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"weir"
	"weir/internal/needs"
)

// memory is what the process holds on to.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// Ten thousand idle connections are kept, each in bounded memory, and still served. Their other ends are in the same process and
// count, too.
func TestIdleConnections(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1_000
	}
	if limit := descriptors(t, uint64(2*n+500)); limit < uint64(2*n+500) {
		if n = (int(limit) - 500) / 2; n < 500 {
			needs.Skip(t, "too few file descriptors")
		}
	}
	up := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	a := newAuthority(t, "ca")
	files := a.server("www.example.com")
	forever := Timeouts{Idle: weir.Duration(time.Hour), Header: weir.Duration(time.Minute)}
	for name, c := range map[string]struct {
		tls *TLS
		n   int
		kb  uint64
	}{
		"plain": {nil, n, 24}, "TLS": {&TLS{Cert: files.Cert, Key: files.Key}, n / 10, 64},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Options{Upstream: to(up.URL), TLS: c.tls, Timeouts: forever})
			conns := make([]net.Conn, 0, c.n)
			ask := func(conn net.Conn, br *bufio.Reader) {
				t.Helper()
				br.Reset(conn)
				g.send(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if res, body := g.answer(br); res.StatusCode != 200 || body != "hello" {
					t.Fatal(res.Status)
				}
			}
			br := bufio.NewReader(nil)
			before := memory()
			for range c.n {
				conn, err := net.Dial("tcp", g.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if c.tls != nil {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
				}
				ask(conn, br)
				conns = append(conns, conn)
			}
			eventually(t, "all are idle", func() bool { return g.requests.Load() == 0 && g.open.Load() == int64(c.n) })
			each := (memory() - before) / uint64(c.n)
			t.Logf("%d connections, %.1f KB each", c.n, float64(each)/1024)
			if each > c.kb<<10 {
				t.Errorf("%d bytes each, more than %d KB", each, c.kb)
			}
			for i := 0; i < c.n; i += c.n / 50 {
				ask(conns[i], br)
			}
		})
	}
}
