package httpgate

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"weir/identify"
)

// A proxy that trusted_proxies does not name is reported once in the log, and by the gate until it is trusted. Requests
// of trusted proxies, and those without such a header, are not.
func TestUnlistedProxy(t *testing.T) {
	t.Parallel()
	o := Options{Upstream: to(echo(t).URL), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	r := start(t, o)
	lines := func() int { return strings.Count(r.log.String(), "sends a forwarding header again and again") }
	send := func(header ...string) {
		t.Helper()
		for range 20 {
			if resp, body := r.do(r.request("GET", "/", nil, header...)); resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status, body)
			}
		}
	}
	send()
	if all := r.UnlistedProxies(); len(all) > 0 || lines() > 0 {
		t.Errorf("without a header: %v", all)
	}
	send("X-Real-IP", "203.0.113.9")
	send("X-Forwarded-For", "203.0.113.9")
	want := identify.UnlistedProxy{Addr: netip.MustParseAddr("127.0.0.1"), Header: "X-Forwarded-For"}
	if all := r.UnlistedProxies(); len(all) != 1 || all[0] != want || lines() != 1 {
		t.Errorf("%v, %d lines in the log", all, lines())
	}
	o.TrustedProxies = append(o.TrustedProxies, netip.MustParsePrefix("127.0.0.1/32"))
	commit, _, err := r.Prepare(o, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	send("X-Forwarded-For", "203.0.113.9")
	if all := r.UnlistedProxies(); len(all) > 0 || lines() != 1 {
		t.Errorf("trusted meanwhile: %v, %d lines", all, lines())
	}
}
