package httpgate

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate/refusal"
	"weir/identify"
)

func TestValidate(t *testing.T) {
	good := Options{Listen: ":8080", Upstream: to("http://127.0.0.1:3000"), Account: []string{"bearer"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if err := good.WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	bad := Options{
		Listen: "8080", Upstream: to("127.0.0.1:3000"), Account: []string{"bearer", "beaver"},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), {}}, ForwardedHeader: "via",
		Bounds:   Bounds{Connections: -1, Header: 10, Body: -1},
		Timeouts: Timeouts{Idle: -1},
	}
	var paths []string
	for _, fe := range weir.FieldErrors(bad.Validate()) {
		paths = append(paths, fe.Path)
		if fe.Msg == "" || fe.Hint == "" {
			t.Errorf("%v has no hint", fe)
		}
	}
	want := "listen upstream.servers[0] trusted_proxies[0] trusted_proxies[1] forwarded_header account[1] " +
		"bounds.connections bounds.header bounds.body timeouts.idle"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	for upstream, ok := range map[string]bool{"": false, "http://": false, "ftp://a": false, "http://u@a": false,
		"http://a?b": false, "://": false,
		"https://a/base": true, "h2c://a:80": true, "http://[::1]:80": true} {
		if mistake := (Options{Listen: good.Listen, Upstream: to(upstream)}).Validate(); (mistake == nil) != ok {
			t.Errorf("%q: %v", upstream, mistake)
		}
	}
	if _, err := New(bad, nil, nil, Env{}); err == nil {
		t.Error("a gate with mistakes")
	}
}

func TestIDs(t *testing.T) {
	a, b := newID(epoch), newID(epoch.Add(time.Millisecond))
	if len(a) != 16 || a >= b || a == newID(epoch) {
		t.Errorf("%s %s", a, b)
	}
	for in, ok := range map[string]bool{"abc-1": true, "": false, "a b": false, "a\nb": false,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false} {
		if (saneID([]string{in}) != "") != ok {
			t.Errorf("%q", in)
		}
	}
	if saneID([]string{"a", "b"}) != "" {
		t.Error("two ids")
	}
}

func TestRateLimitNames(t *testing.T) {
	h := http.Header{}
	refusal.RateLimit(&refusal.Singles{Of: h}, []weir.Figure{{By: "a", Rule: "x", Limit: 5, Remaining: 3},
		{By: "b", Rule: "x", Limit: 7, Remaining: 7},
		{By: "a", Rule: "x", Limit: 5, Remaining: 2}, {By: "a", Rule: "\x80\\", Limit: 1}}, epoch)
	written := "RateLimit" // not Ratelimit, as Header.Get would have it
	if got, want := strings.Join(h[written], " and "), `"x";r=7, "a/x";r=2, "?\\";r=0`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMaskSegments(t *testing.T) {
	secret := identify.Mask("f")
	for path, want := range map[string]string{"/fail/f/x": "/fail/" + secret + "/x", "/f": "/" + secret, "/": "/",
		"/ff": "/ff"} {
		if got := maskSegments(path, "f"); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := maskSegments("/a", ""); got != "/a" {
		t.Errorf("without an account: %s", got)
	}
}
