package httpgate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"weir"
	"weir/throttle/bloom"
)

// edge is a Bloom limiter of two connections in an hour for each address. Its key is drawn by chance, and it is so
// large that two addresses do not share a limiter.
func edge(t *testing.T) weir.Throttle {
	l, err := bloom.New(bloom.Options{Rate: weir.Rate{Count: 2, Per: time.Hour}, Burst: 2, K: 2, V4: 32,
		Attackers: 100_000}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// servedFrom connects from one of the addresses of this machine and reports whether the gate answers a request.
func (r *rig) servedFrom(local string) bool {
	r.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.DialContext(context.Background(), "tcp", r.addr)
	if errors.Is(err, syscall.ECONNRESET) {
		return false // turned away before the dial was over
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	answer, _ := io.ReadAll(c)
	return len(answer) > 0
}

// TestAccept: a source over its limit of connections is closed before anything is read, others are served; trusted
// proxies are not counted; the limit outlives a reload.
func TestAccept(t *testing.T) {
	limit := edge(t)
	o := Options{Upstream: to(named(t, "hello"))}
	g := start(t, o)
	accept := chainOf(t, limit)
	commit, _, err := g.Prepare(o, accept, nil)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	for i := range 5 {
		if served := g.servedFrom("127.0.0.1"); served != (i < 2) {
			t.Errorf("connection %d of the first: served is %v", i+1, served)
		}
	}
	if !g.servedFrom("127.0.0.2") {
		t.Error("another source is turned away")
	}
	if n, _ := accept.Links()[0].Counts.Total(weir.Refuse); n != 3 {
		t.Errorf("%d refusals counted, want 3", n)
	}
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	commit, _, err = g.Prepare(o, accept, nil)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	if !g.servedFrom("127.0.0.1") {
		t.Error("a trusted proxy is counted")
	}
	if !g.servedFrom("127.0.0.2") || g.servedFrom("127.0.0.2") {
		t.Error("what was used before the reload is forgotten")
	}
}
