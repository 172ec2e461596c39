package console

import (
	"context"
	"net/netip"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	url, _ := serve(t, Options{Hosts: []string{"weir.example.com"}}, newBackend())
	for host, want := range map[string]int{
		"": 200, "127.0.0.1": 200, "[::1]:9000": 200, "localhost:9000": 200, "LOCALHOST.": 200,
		"weir.example.com:9000": 200,
		"evil.example":          403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
	} {
		if code, body, _ := get(t, "GET", url+"/metrics", host); code != want {
			t.Errorf("host %q: %d, want %d: %.100s", host, code, want, body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE"} {
		if code, _, h := get(t, method, url+"/metrics", ""); code != 405 || h.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %v", method, code, h)
		}
	}
	if code, _, _ := get(t, "HEAD", url+"/healthz", ""); code != 200 {
		t.Errorf("HEAD: %d", code)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, _, _ := get(t, "GET", url+path, "evil.example"); code != 200 {
			t.Errorf("%s by another name: %d", path, code)
		}
	}
	away, _ := serve(t, Options{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, newBackend())
	if code, body, _ := get(t, "GET", away+"/healthz", ""); code != 403 || !strings.Contains(body, "console.allow") {
		t.Errorf("a peer from elsewhere: %d %s", code, body)
	}
}

func TestGuardAddresses(t *testing.T) {
	g := guard{allow: loopback}
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "192.0.2.1": false, "::ffff:192.0.2.1": false,
		"fe80::1%eth0": false,
	} {
		if got := g.admitsAddr(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %t", addr, got)
		}
	}
}

func TestConfigureChangesWhoMayConnect(t *testing.T) {
	b := newBackend()
	m := NewMetrics("test")
	s := newServer(t, Options{Listen: "127.0.0.1:0"}, b, m)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Stop(context.Background())
	url := "http://" + s.Addr().String() + "/healthz"
	if code, _, _ := get(t, "GET", url, ""); code != 200 {
		t.Errorf("before: %d", code)
	}
	s.Configure(Options{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	if code, _, _ := get(t, "GET", url, ""); code != 403 {
		t.Errorf("after: %d", code)
	}
}
