package identify

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"
)

var unlistedEpoch = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func trustsNone(netip.Addr) bool { return false }

// An address that forwards for others is named at the bound, once, and forgotten when it no longer does.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"X-Forwarded-For": "X-Forwarded-For", "Forwarded": "Forwarded", "X-Real-IP": "X-Real-IP",
		"Via": "", "X-Forwarded-Proto": ""} {
		var u Unlisted
		h := http.Header{}
		h.Set(header, "203.0.113.9")
		peer, now := netip.MustParseAddr("::ffff:10.0.0.2"), unlistedEpoch
		for i := range 3 * unlistedFrom {
			now = now.Add(time.Minute)
			p, found := u.Note(peer, h, now)
			if found != (want != "" && i == unlistedFrom-1) || found && (p.Header != want || p.Addr.String() != "10.0.0.2") {
				t.Errorf("%s, request %d: %v, %v", header, i+1, p, found)
			}
		}
		if all := u.Found(trustsNone, now.Add(unlistedLife-1)); (len(all) == 1) != (want != "") {
			t.Errorf("%s: %v", header, all)
		}
		if all := u.Found(trustsNone, now.Add(unlistedLife)); len(all) > 0 {
			t.Errorf("%s, an hour later: %v", header, all)
		}
		if all := u.Found(func(a netip.Addr) bool { return a.String() == "10.0.0.2" }, now); len(all) > 0 {
			t.Errorf("%s, trusted meanwhile: %v", header, all)
		}
	}
}

// A proxy is found among any number of clients that write the header themselves, in a memory that does not grow; a
// place that is not used any more is taken by the next one.
func TestUnlistedBound(t *testing.T) {
	t.Parallel()
	var u Unlisted
	h, proxy := http.Header{"X-Forwarded-For": {"203.0.113.9"}}, netip.MustParseAddr("10.0.0.2")
	forger := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i)) }
	for i := range 5000 {
		u.Note(forger(i), h, unlistedEpoch)
		if i%4 == 0 {
			u.Note(proxy, h, unlistedEpoch)
		}
	}
	if all := u.Found(trustsNone, unlistedEpoch); len(all) != 1 || all[0].Addr != proxy {
		t.Errorf("%v", all)
	}
	u = Unlisted{}
	for i := range maxUnlisted + 1 {
		for range unlistedFrom {
			u.Note(forger(i), h, unlistedEpoch)
		}
	}
	if all := u.Found(trustsNone, unlistedEpoch); slices.ContainsFunc(all,
		func(p UnlistedProxy) bool { return p.Addr == forger(maxUnlisted) }) {
		t.Errorf("one more than the bound: %v", all)
	}
	later := unlistedEpoch.Add(unlistedLife)
	for range unlistedFrom {
		u.Note(proxy, h, later)
	}
	if all := u.Found(trustsNone, later); len(all) != 1 || all[0].Addr != proxy {
		t.Errorf("%v", all)
	}
}

func TestUnlistedAllocates(t *testing.T) {
	var u Unlisted
	h, peer := http.Header{"X-Forwarded-For": {"203.0.113.9"}}, netip.MustParseAddr("10.0.0.2")
	if n := testing.AllocsPerRun(100, func() { u.Note(peer, h, unlistedEpoch) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
