package identify

import (
	"net/netip"
	"testing"
)

func TestRanges(t *testing.T) {
	var r Ranges[string]
	if _, found := r.Find(netip.MustParseAddr("192.0.2.1")); found {
		t.Error("something is found in nothing")
	}
	for _, p := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "::ffff:172.16.0.0/108", "2001:db8::/32",
		"2001:db8:1::/48", "0.0.0.0/0"} {
		r.Add(netip.MustParsePrefix(p), p)
	}
	r.Add(netip.MustParsePrefix("10.9.9.9/8"), "ten") // the host bits count for nothing: it replaces 10.0.0.0/8
	if r.Len() != 7 {
		t.Errorf("%d networks", r.Len())
	}
	for addr, want := range map[string]string{
		"10.1.2.3":          "10.1.2.3/32",
		"10.1.2.4":          "10.1.0.0/16",
		"10.2.0.1":          "ten",
		"::ffff:10.2.0.1":   "ten",
		"172.16.5.5":        "::ffff:172.16.0.0/108",
		"192.0.2.1":         "0.0.0.0/0",
		"2001:db8:1:2::3":   "2001:db8:1::/48",
		"2001:db8:2::1%lo0": "2001:db8::/32",
		"2001:db9::1":       "",
	} {
		if got, found := r.Find(netip.MustParseAddr(addr)); got != want || found != (want != "") {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	if _, found := r.Find(netip.Addr{}); found {
		t.Error("no address is in a network")
	}
}
