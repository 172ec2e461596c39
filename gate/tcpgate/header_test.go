package tcpgate

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"weir/gate"

	"github.com/pires/go-proxyproto"

	"weir"
	"weir/internal/testkit/needs"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// told reads the header that the upstream got, and checks that what follows is the client's.
func told(t testing.TB, up net.Conn, want string) *proxyproto.Header {
	t.Helper()
	r := bufio.NewReader(up)
	h, err := proxyproto.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, r, want)
	return h
}

func TestHeaderOut(t *testing.T) {
	for _, version := range []ProxyOut{ProxyOutV1, ProxyOutV2} {
		for _, listen := range append(hosts(), ":0") {
			t.Run(string(version)+" "+listen, func(t *testing.T) {
				upstream, conns := caught(t)
				g := start(t, Options{Listen: listen, Upstream: upstream, ProxyProtocol: ProxyProtocol{Out: version}})
				c, err := net.Dial("tcp", strings.Replace(g.addr, "[::]", "127.0.0.1", 1))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				deadline(c)
				send(t, c, "hello")
				h := told(t, receive(t, conns), "hello")
				if h.Version != version[1]-'0' || h.SourceAddr.String() != c.LocalAddr().String() ||
					h.DestinationAddr.String() != c.RemoteAddr().String() {
					t.Errorf("%+v, want %s to %s", h, c.LocalAddr(), c.RemoteAddr())
				}
			})
		}
	}
}

// header is one as a proxy in front of the gate sends it.
func header(t testing.TB, version byte, from, to string) string {
	t.Helper()
	text, err := proxyproto.HeaderProxyFromAddrs(version, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)),
		net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to))).Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHeaderIn(t *testing.T) {
	local,
		err := (&proxyproto.Header{Version: 2, Command: proxyproto.LOCAL,
		TransportProtocol: proxyproto.UNSPEC}).Format()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peer, said string
		source     string // as the throttles see it
		arrives    string // what the upstream gets, besides its header
	}{
		"v1": {"127.0.0.9", header(t, 1, "192.0.2.1:99", "198.51.100.1:5432") + "hello", "192.0.2.1",
			"hello"},
		"v2": {"127.0.0.9", header(t, 2, "192.0.2.1:99", "198.51.100.1:5432") + "hello", "192.0.2.1",
			"hello"},
		"v1 ipv6": {"127.0.0.9", header(t, 1, "[2001:db8::1]:99", "[2001:db8::2]:5432") + "hello", "2001:db8::1",
			"hello"},
		"v2 ipv6": {"127.0.0.9", header(t, 2, "[2001:db8::1]:99", "[2001:db8::2]:5432") + "hello", "2001:db8::1",
			"hello"},
		"v2 mapped": {"127.0.0.9", "\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x24" + strings.Repeat("\x00", 10) +
			"\xff\xff\xc0\x00\x02\x01" + strings.Repeat("\x20", 16) + "\x00\x63\x15\x38hello", "192.0.2.1", "hello"},
		"much behind": {"127.0.0.9", header(t, 2, "192.0.2.1:99", "198.51.100.1:5432") +
			strings.Repeat("hello", 1000), "192.0.2.1", strings.Repeat("hello", 1000)},
		"health check": {"127.0.0.9", string(local) + "hello", "127.0.0.9", "hello"},
		"unknown":      {"127.0.0.9", "PROXY UNKNOWN\r\nhello", "127.0.0.9", "hello"},
		"not a proxy":  {"127.0.0.8", "hello", "127.0.0.8", "hello"},
		"not believed": {"127.0.0.8", header(t, 1, "192.0.2.1:99", "198.51.100.1:5432"), "127.0.0.8",
			header(t, 1, "192.0.2.1:99", "198.51.100.1:5432")},
		"second header": {"127.0.0.9", header(t, 1, "192.0.2.1:99", "198.51.100.1:5432") + "PROXY x", "192.0.2.1",
			"PROXY x"},
	} {
		t.Run(name, func(t *testing.T) {
			sources := make(chan netip.Addr, 1)
			judge := newThrottle(func(ev *weir.Event, _ *weir.Answer) error { sources <- ev.Source; return nil })
			upstream, conns := caught(t)
			g := start(t, Options{Upstream: upstream, TrustedProxies: prefixes("127.0.0.9/32"),
				ProxyProtocol: ProxyProtocol{In: ProxyInRequired, Out: ProxyOutV2}}, judge)
			client := g.dialFrom(c.peer)
			send(t, client, c.said)
			if got := receive(t, sources); got.String() != c.source {
				t.Errorf("source %s, want %s", got, c.source)
			}
			up := receive(t, conns)
			h := told(t, up, c.arrives)
			from, _, ok := h.TCPAddrs()
			if ok && from.AddrPort().Addr().Unmap().String() != c.source {
				t.Errorf("the upstream is told %v", from)
			}
			if !ok {
				t.Error("the upstream is told no addresses")
			}
			send(t, up, "answer")
			expect(t, client, "answer")
			_ = client.Close()
			_ = up.Close()
			needs.Wait(t, "closed", func() bool { return g.Open.Load() == 0 })
			if g.seen.in.Load() != int64(len(c.arrives)) {
				t.Errorf("%d bytes in", g.seen.in.Load())
			}
		})
	}
}

// TestMixedHeaderOut: with one address of IPv4 and one of IPv6, however the first is kept, the line of version 1 is one
// that every reader understands.
func TestMixedHeaderOut(t *testing.T) {
	at := func(addr string) *net.TCPAddr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)) }
	for _, c := range []struct{ from, to, want string }{
		{"192.0.2.1:99", "[2001:db8::2]:5432", "PROXY TCP6 ::ffff:c000:201 2001:db8::2 99 5432\r\n"},
		{"[::ffff:192.0.2.1]:99", "[2001:db8::2]:5432", "PROXY TCP6 ::ffff:c000:201 2001:db8::2 99 5432\r\n"},
		{"[2001:db8::1]:99", "198.51.100.1:5432", "PROXY TCP6 2001:db8::1 ::ffff:c633:6401 99 5432\r\n"},
		{"[::ffff:192.0.2.1]:99", "198.51.100.1:5432", "PROXY TCP4 192.0.2.1 198.51.100.1 99 5432\r\n"},
	} {
		var out bytes.Buffer
		if err := writeHeader(&out, ProxyOutV1, at(c.from), at(c.to)); err != nil || out.String() != c.want {
			t.Errorf("%s to %s: %q, %v", c.from, c.to, out.String(), err)
		}
		if _, err := proxyproto.Read(bufio.NewReader(&out)); err != nil {
			t.Errorf("%q: %v", c.want, err)
		}
	}
}

// A trusted proxy that does not say where a connection comes from is not waited for, nor guessed at.
func TestHeaderMissing(t *testing.T) {
	judge := newThrottle(nil)
	g := start(t, Options{Upstream: echo(t), TrustedProxies: prefixes("127.0.0.9/32"),
		ProxyProtocol: ProxyProtocol{In: ProxyInRequired}}, judge)
	for i, said := range []string{"hello, world", "PROXY TCP4 nonsense\r\n", "PROXY " + strings.Repeat("x", 200),
		"\r\n\r\n\x00\r\nQUIT\n\xff\xff\xff\xff"} {
		c := g.dialFrom("127.0.0.9")
		send(t, c, said)
		expectCut(t, c)
		awaitBound(t, g.seen, BoundHeader, i+1)
	}
	silent := g.dialFrom("127.0.0.9")
	_ = silent.Close()
	awaitBound(t, g.seen, BoundHeader, 5)
	if len(judge.Settled) != 0 || judge.Held.Load() != 0 {
		t.Error("judged")
	}
	passes(t, g.dial())
}

// The deadline of a socket is the operating system's: real time, long enough for whoever is in time.
func TestHeaderLate(t *testing.T) {
	t.Parallel()
	g := start(t, Options{Upstream: echo(t), TrustedProxies: prefixes("127.0.0.9/32"),
		ProxyProtocol: ProxyProtocol{In: ProxyInRequired},
		Timeouts:      Timeouts{Header: weir.Duration(3 * time.Second)}})
	inTime := g.dialFrom("127.0.0.9")
	send(t, inTime, "PROXY UNKNOWN\r\nhello")
	expect(t, inTime, "hello")
	late := g.dialFrom("127.0.0.9")
	send(t, late, "PRO")
	expectCut(t, late)
	g.seen.await(t, BoundHeader)
	passes(t, inTime)
}

// A stop does not wait for a header.
func TestHeaderStop(t *testing.T) {
	g := start(t, Options{Upstream: echo(t), TrustedProxies: prefixes("127.0.0.9/32"),
		ProxyProtocol: ProxyProtocol{In: ProxyInRequired}})
	c := g.dialFrom("127.0.0.9")
	send(t, c, "PRO")
	needs.Wait(t, "let in", func() bool { return g.Open.Load() == 1 })
	if err := g.Stop(ended()); err == nil {
		t.Error("no error")
	}
	expectCut(t, c)
	if g.seen.bounds(BoundHeader) != 0 {
		t.Error("the proxy is blamed")
	}
}

// FuzzReadHeader: whatever a proxy sends, nothing breaks, and what follows a header is passed on as it came.
func FuzzReadHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 198.51.100.1 99 5432\r\nhello"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add([]byte(header(f, 2, "[2001:db8::1]:99", "[2001:db8::2]:5432") + "hello"))
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\xd8"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bytes.NewReader(text)
		h, err := gate.ReadProxyHeader(r)
		if err != nil {
			return
		}
		rest, _ := io.ReadAll(r)
		if !bytes.HasSuffix(text, append(slices.Clip(h.Ahead), rest...)) {
			t.Errorf("%q and %q do not end %q", h.Ahead, rest, text)
		}
		if h.From == nil {
			return
		}
		for _, version := range []ProxyOut{ProxyOutV1, ProxyOutV2} {
			var out bytes.Buffer
			if err := writeHeader(&out, version, h.From, h.To); err != nil {
				t.Errorf("%v cannot be told on: %v", h, err)
			}
			if _, err := proxyproto.Read(bufio.NewReader(&out)); err != nil {
				t.Errorf("%q cannot be read: %v", out.Bytes(), err)
			}
		}
	})
}
