package httpgate

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"weir"
	"weir/gate/httpgate/accesslog"
	"weir/gate/httpgate/keys"
	"weir/internal/testkit/needs"
)

// memory is what the process holds on to.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// What the process at the other end is told.
const (
	idleAddress = "WEIR_TEST_IDLE_ADDRESS"
	idleNumber  = "WEIR_TEST_IDLE_NUMBER"
	idleTLS     = "WEIR_TEST_IDLE_TLS"
)

// Two thousand idle connections, in full ten thousand, are kept, each in bounded memory, and still served. Their other
// ends are in a process of their own, so that there are descriptors for all, and the memory is the gate's alone.
func TestIdleConnections(t *testing.T) {
	needs.Unwatched(t)
	if os.Getenv(idleAddress) != "" {
		idleClients(t)
		return
	}
	n := 2_000
	if needs.Long() {
		n = 10_000
	}
	if most := descriptors(t, uint64(n+1000)); most < uint64(n+1000) {
		needs.Skip(t, fmt.Sprintf("%d file descriptors are too few for %d connections", most, n))
	}
	up := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	files := newAuthority(t, "ca").server("www.example.com")
	forever := Timeouts{Idle: weir.Duration(time.Hour), Header: weir.Duration(time.Minute)}
	for _, c := range []struct {
		name string
		tls  *keys.TLS
		n    int
		kb   uint64
	}{
		{"plain", nil, n, 12}, {"TLS", &keys.TLS{Cert: files.Cert, Key: files.Key}, 200, 48},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, Options{Upstream: to(up.URL), TLS: c.tls, Timeouts: forever})
			g.SetAccess(accesslog.Log{Requests: accesslog.Off})
			clients := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIdleConnections$")
			clients.Env = append(os.Environ(), idleAddress+"="+g.addr, idleNumber+"="+strconv.Itoa(c.n),
				fmt.Sprintf("%s=%v", idleTLS, c.tls != nil))
			clients.Stderr = os.Stderr
			more, err1 := clients.StdinPipe()
			said, err2 := clients.StdoutPipe()
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			before := memory()
			if err := clients.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(said)
			expect := func(want string) {
				t.Helper()
				if got, err := lines.ReadString('\n'); got != want+"\n" {
					t.Fatalf("%q, %v", got, err)
				}
			}
			expect("all idle")
			needs.Wait(t, "all are idle", func() bool { return g.UnderWay.Load() == 0 && g.Open.Load() == int64(c.n) })
			each := (memory() - before) / uint64(c.n)
			t.Logf("%d connections, %.1f KB each", c.n, float64(each)/1024)
			if each > c.kb<<10 {
				t.Errorf("%d bytes each, more than %d KB", each, c.kb)
			}
			_, _ = io.WriteString(more, "again\n")
			expect("all served")
			_ = more.Close()
			if err := clients.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// idleClients is the other end: it connects, asks once on each connection, and some of them again when it is told to.
func idleClients(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv(idleNumber))
	if err != nil {
		t.Fatal(err)
	}
	descriptors(t, uint64(n+1000))
	g := &rig{t: t}
	br := bufio.NewReader(nil)
	ask := func(c net.Conn) {
		t.Helper()
		br.Reset(c)
		g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if res, body := g.answer(br); res.StatusCode != 200 || body != "hello" {
			t.Fatal(res.Status)
		}
	}
	conns := make([]net.Conn, n)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", os.Getenv(idleAddress)); err != nil {
			t.Fatal(err)
		}
		if os.Getenv(idleTLS) == "true" {
			conns[i] = tls.Client(conns[i], &tls.Config{InsecureSkipVerify: true})
		}
		ask(conns[i])
	}
	fmt.Println("all idle")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	for i := 0; i < n; i += 100 {
		ask(conns[i])
	}
	fmt.Println("all served")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
