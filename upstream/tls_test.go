package upstream

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/clock"
)

// secure starts a server of https, with HTTP/2 or without, and a pool that trusts it.
func secure(t *testing.T, l net.Listener, http2 bool, h http.HandlerFunc) (*httptest.Server, func(o Options) *rig) {
	s := httptest.NewUnstartedServer(h)
	if l != nil {
		_ = s.Listener.Close()
		s.Listener = l
	}
	s.EnableHTTP2, s.Config.ErrorLog = http2, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, func(o Options) *rig {
		r := &rig{t: t, clock: clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), seen: &seen{}}
		p, err := New(o, Env{Clock: r.clock, Observer: r.seen, Roots: roots})
		if err != nil {
			t.Fatal(err)
		}
		r.Pool = p
		t.Cleanup(p.Close)
		return r
	}
}

// who answers with what it was asked by, and on which connection.
func who(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %q %s", r.Proto, r.Method, body, r.RemoteAddr)
}

// TestTLS: a server of https is spoken to in what it speaks, on connections that are kept.
func TestTLS(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint(http2), func(t *testing.T) {
			s, pool := secure(t, nil, http2, who)
			p := pool(To(s.URL))
			proto, from := "HTTP/1.1", ""
			if http2 {
				proto = "HTTP/2.0"
			}
			for i, method := range []string{"GET", "POST", "GET", "PUT"} {
				var body io.Reader
				if method != "GET" {
					body = strings.NewReader("hello")
				}
				_, got, err := p.do(request(t, method, "/", body))
				if err != nil || !strings.HasPrefix(got, proto+" "+method) ||
					body != nil != strings.Contains(got, `"hello"`) {
					t.Fatalf("%q %v", got, err)
				}
				if i > 0 && got[strings.LastIndexByte(got, ' '):] != from {
					t.Errorf("%s came on another connection", method)
				}
				from = got[strings.LastIndexByte(got, ' '):]
			}
			// What a server says of itself is asked in the same way.
			o := To(s.URL)
			o.Health = Health{Path: "/", Every: weir.Duration(time.Second)}
			if q := pool(o); !q.ask(t.Context(), q.servers()[0]) {
				t.Error("the server is not well")
			}
			strangers := start(t, To(s.URL))
			if _, _, err := strangers.get("/"); err == nil || strangers.seen.String() != "failed connect" {
				t.Errorf("a stranger's certificate: %v, %s", err, strangers.seen)
			}
		})
	}
}

// TestTLSUpgrade: a server that speaks HTTP/2 is asked in HTTP/1.1 for what HTTP/2 cannot carry.
func TestTLSUpgrade(t *testing.T) {
	s, pool := secure(t, nil, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			who(w, r)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	})
	p := pool(To(s.URL))
	for range 2 {
		if _, got, err := p.get("/"); err != nil || !strings.HasPrefix(got, "HTTP/2.0") {
			t.Fatalf("%q %v", got, err)
		}
		r := request(t, "GET", "/", nil)
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		res, err := p.RoundTrip(r)
		if err != nil || res.StatusCode != 101 {
			t.Fatal(res, err)
		}
		tunnel := res.Body.(io.ReadWriteCloser)
		_, _ = io.WriteString(tunnel, "hello\n")
		if line, err := bufio.NewReader(tunnel).ReadString('\n'); line != "hello\n" {
			t.Errorf("%q %v", line, err)
		}
		_ = tunnel.Close()
	}
}

// TestTLSChanges: a server that is replaced by one that speaks something else is spoken to again, after one failure at
// most.
func TestTLSChanges(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.(*net.TCPListener).File() // it keeps the port while one server takes the place of another
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	server, pool := secure(t, l, true, who)
	p := pool(To(server.URL))
	for i, http2 := range []bool{true, false, true, false} {
		if i > 0 {
			server.Close()
			if l, err = net.FileListener(socket); err != nil {
				t.Fatal(err)
			}
			server, _ = secure(t, l, http2, who)
		}
		if _, _, err := p.get("/"); err != nil && i == 0 {
			t.Fatal(err)
		}
		if _, got, err := p.get("/"); err != nil {
			t.Fatalf("HTTP/2 %v: %q %v", http2, got, err)
		}
	}
}

// TestTLSLeftOver: what came on an idle connection, or behind an answer, is nobody's answer, even where TLS has read it
// already.
func TestTLSLeftOver(t *testing.T) {
	const fine, evil = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	s, pool := secure(t, nil, false, who)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	says, said := make(chan []string), make(chan struct{})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					if _, err := http.ReadRequest(br); err != nil {
						return
					}
					for _, text := range <-says { // each in a record of its own
						_, _ = io.WriteString(c, text)
					}
					said <- struct{}{}
				}
			}()
		}
	}()
	p := pool(To("https://" + l.Addr().String()))
	for _, odd := range [][]string{{fine + evil}, {fine, evil}, {fine[:40], fine[40:] + evil}, {fine, "\r\n"}, {fine}} {
		for _, text := range [][]string{odd, {fine}} {
			go func() { says <- text }()
			if _, got, err := p.get("/"); err != nil || got != "hello" {
				t.Errorf("%q: %q %v", odd, got, err)
			}
			<-said
		}
	}
}
