package httpgate

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"weir"
	"weir/gate"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func header(t testing.TB, version byte, from string) string {
	t.Helper()
	src := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
	dst := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.80:80"))
	if src.IP.To4() == nil {
		dst = net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[2001:db8::80]:80"))
	}
	text, err := proxyproto.HeaderProxyFromAddrs(version, src, dst).Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const plainGet = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

func talk(r *rig, text string) string {
	r.t.Helper()
	c := r.dial()
	r.send(c, text)
	got, _ := io.ReadAll(c)
	return string(got)
}

// The client that the header names is the source, for throttles, for the log and for the upstream.
func TestProxyProtocol(t *testing.T) {
	var mu sync.Mutex
	var source netip.Addr
	judge := newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
		mu.Lock()
		defer mu.Unlock()
		source = ev.Source
		return nil
	})
	g := start(t, Options{Upstream: to(teller(t)), ProxyProtocol: ProxyProtocol{From: loopback}}, judge)
	for _, c := range []struct {
		version byte
		from    string
		want    string
	}{
		{1, "198.51.100.7:4711", "198.51.100.7"}, {2, "198.51.100.8:4711", "198.51.100.8"},
		{1, "[2001:db8::7]:4711", "2001:db8::7"}, {2, "[2001:db8::8]:4711", "2001:db8::8"},
	} {
		got := talk(g, header(t, c.version, c.from)+
			strings.Replace(plainGet, "Host", "X-Forwarded-For: 203.0.113.1\r\nHost", 1))
		mu.Lock()
		if source.String() != c.want || !strings.Contains(got, "X-Forwarded-For: "+c.want+"\r\n") {
			t.Errorf("v%d from %s: %s, %s", c.version, c.from, source, got)
		}
		mu.Unlock()
	}
	// Without addresses the proxy speaks for itself.
	for _, local := range []string{"PROXY UNKNOWN\r\n", "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00",
		"\r\n\r\n\x00\r\nQUIT\n\x20\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02"} {
		got := talk(g, local+plainGet)
		mu.Lock()
		if source.String() != "127.0.0.1" || !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("%q: %s, %s", local, source, got)
		}
		mu.Unlock()
	}
}

// Where a header is due, nothing else will do; where none is due, nothing is taken for one.
func TestProxyProtocolForged(t *testing.T) {
	g := start(t, Options{Upstream: to(teller(t)), ProxyProtocol: ProxyProtocol{From: loopback},
		Timeouts: Timeouts{Handshake: weir.Duration(50 * time.Millisecond)}})
	tooLong := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + strings.Repeat("\x00", 0xffff)
	forged := map[string]string{
		"none": plainGet, "half": "PROXY TCP4 198.51", "wrong": "PROXY TCP4 1.2.3 4.5.6.7 1 2\r\n" + plainGet,
		"silent":          "",
		"too long a line": "PROXY TCP4 " + strings.Repeat("1", 200) + "\r\n", "too long": tooLong,
	}
	for name, text := range forged {
		t.Run(name, func(t *testing.T) {
			c := g.dial()
			_, _ = io.WriteString(c, text)
			if got, _ := io.ReadAll(c); len(got) > 0 {
				t.Errorf("answered %q", got)
			}
		})
	}
	needs.Wait(t, "all counted", func() bool { return g.seen.bounds(BoundProxyHeader) == len(forged) })
	needs.Wait(t, "all closed", func() bool { return g.Open.Load() == 0 && g.arriving.Load() == 0 })

	stranger := start(t, Options{Upstream: to(teller(t)),
		ProxyProtocol: ProxyProtocol{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
	if got := talk(stranger, header(t, 1, "198.51.100.7:1")+plainGet); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("%s", got)
	}
	if got := talk(stranger, plainGet); !strings.Contains(got, "X-Forwarded-For: 127.0.0.1\r\n") {
		t.Errorf("%s", got)
	}
}

// The header comes before TLS, and both before HTTP; they may come in one piece.
func TestProxyProtocolBeforeTLS(t *testing.T) {
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(teller(t)), ProxyProtocol: ProxyProtocol{From: loopback}})
	c := tls.Client(&prefixed{Conn: g.dial(), first: header(t, 2, "198.51.100.9:1")},
		&tls.Config{RootCAs: a.Pool, ServerName: "www.example.com"})
	_, err := io.WriteString(c, plainGet)
	got, _ := io.ReadAll(c)
	if err != nil || !strings.Contains(string(got), "X-Forwarded-For: 198.51.100.9\r\n") {
		t.Errorf("%v, %s", err, got)
	}
}

// prefixed puts something in front of the first thing that is written.
type prefixed struct {
	net.Conn
	first string
}

func (p *prefixed) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(append([]byte(p.first), b...))
	n -= len(p.first)
	p.first = ""
	return max(n, 0), err
}

// The door judges the client that the header names, not the proxy.
func TestDoorBehindProxyProtocol(t *testing.T) {
	door := newThrottle(func(ev *weir.Event, a *weir.Answer) error {
		if ev.Source == netip.MustParseAddr("198.51.100.66") {
			return overLimit(ev, a)
		}
		if ev.Source.IsLoopback() {
			t.Error("the proxy was judged")
		}
		return nil
	})
	var log bytes.Buffer
	env := Env{Env: gate.Env{Clock: clock.NewFake(epoch), Log: slog.New(slog.NewTextHandler(&log, nil))}}
	g := &rig{t: t}
	var err error
	g.Gate, err = New(Options{Listen: "127.0.0.1:0", Upstream: to(echo(t).URL),
		ProxyProtocol: ProxyProtocol{From: loopback}}, chainOf(t, door), nil,
		env)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	g.Start()
	defer g.Stop(t.Context())
	g.addr = g.Addr().String()
	if got := talk(g, header(t, 2, "198.51.100.65:1")+plainGet); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("%q", got)
	}
	if got := talk(g, header(t, 2, "198.51.100.66:1")+plainGet); got != "" {
		t.Errorf("%q", got)
	}
	if got := talk(g, "PROXY UNKNOWN\r\n"+plainGet); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("%q", got)
	}
	needs.Wait(t, "all closed", func() bool { return g.Open.Load() == 0 })
}

// bytesSocket is a connection that brings some bytes.
type bytesSocket struct {
	socket
	*bytes.Reader
}

func (s bytesSocket) Read(p []byte) (int, error)      { return s.Reader.Read(p) }
func (s bytesSocket) SetReadDeadline(time.Time) error { return nil }

// FuzzProxyHeader: whatever comes, what follows the header is what is read next, and nobody gets a source that is none.
func FuzzProxyHeader(f *testing.F) {
	for _, from := range []string{"198.51.100.7:1", "[2001:db8::7]:65535"} {
		f.Add([]byte(header(f, 1, from) + plainGet))
		f.Add([]byte(header(f, 2, from) + plainGet))
	}
	f.Add([]byte("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\nrest"))
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := newConn(nil, bytesSocket{Reader: bytes.NewReader(in)}, netip.MustParseAddr("127.0.0.1"))
		local, err := c.readHeader(t.Context())
		if err != nil {
			return
		}
		if !c.peer.IsValid() || c.peer.Is4In6() || c.peer.Zone() != "" || local != (c.remote == nil) {
			t.Fatalf("%v, %v", c.peer, local)
		}
		rest, _ := io.ReadAll(&c.wire)
		if !bytes.HasSuffix(in, rest) || len(rest) == len(in) {
			t.Fatalf("%q is not what follows in %q", rest, in)
		}
	})
}
