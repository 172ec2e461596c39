package identify

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weir"
)

func key(t testing.TB, specs ...string) *Key {
	t.Helper()
	k, err := ParseKey(specs)
	if err != nil {
		t.Fatal(err)
	}
	k.V4, k.V6 = 32, 64
	return &k
}

func written(t testing.TB, k *Key, ev *weir.Event) string {
	t.Helper()
	b, err := k.Append(nil, ev, ev.Account)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestKeyIsWritten(t *testing.T) {
	all := key(t, "account", "method", "host", "path:2", "network:24/56", "country", "header:x-tenant", "jwt:org")
	all.Country = func(a netip.Addr) string { return map[bool]string{true: "DE", false: "FR"}[a.Is4()] }
	four, six := netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8:1:2ff::9")
	for _, c := range []struct {
		name string
		ev   weir.Event
		want string
	}{
		{"everything", weir.Event{Account: "acme", Source: four, Route: Route("GET", "Shop.example:443", "/v1/Orders/7", nil),
			Parts: []weir.Part{{Name: "jwt:org", Value: "o1"}, {Name: "header:X-Tenant", Value: "T"}}},
			"acme,GET,shop.example,orders,192.0.2.0/24,DE,T,o1"},
		{"nothing but a source", weir.Event{Source: six, Route: Route("BREW", "", "/", nil)},
			"source:2001:db8:1:2ff::/64,OTHER,-,-,2001:db8:1:200::/56,FR,-,-"},
		{"no source", weir.Event{Account: "acme", Route: Route("GET", "", "/a/b", nil)}, "acme,GET,-,b,-,-,-,-"},
		{"signs of the key itself", weir.Event{Account: `a,b\c`, Route: Route("GET", "", "/a/-", nil),
			Parts: []weir.Part{{Name: "header:X-Tenant", Value: "-"}}}, `a\,b\\c,GET,-,\-,-,-,\-,-`},
		{"what cannot be printed", weir.Event{Account: "a\u202eb\x07\xff\u00a0", Route: Route("GET", "", "/", nil)},
			`a\xe2\x80\xaeb\x07\xff\xc2\xa0,GET,-,-,-,-,-,-`},
	} {
		if got := written(t, all, &c.ev); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestKeyOwner(t *testing.T) {
	k := key(t, "method", "account", "header:X-Tenant")
	for _, c := range []struct {
		account, tenant, owner string
		anonymous              bool
	}{
		{"acme", "t", "acme", false},
		{`a,b`, "t", `a\,b`, false},
		{`a\`, "", `a\\`, false},
		{"", "", "source:192.0.2.1/32", true},
		{"", "t", "source:192.0.2.1/32", false},
		{"source:192.0.2.1", "", "source:192.0.2.1", true},
	} {
		ev := weir.Event{Account: c.account, Source: netip.MustParseAddr("192.0.2.1"), Route: weir.Route{Method: "GET"},
			Parts: []weir.Part{{Name: "header:X-Tenant", Value: c.tenant}}}
		name := written(t, k, &ev)
		if got := k.Owner(name); got != c.owner {
			t.Errorf("owner of %s: %s, want %s", name, got, c.owner)
		}
		if c.account != "" && KeyPart(c.account) != c.owner {
			t.Errorf("KeyPart(%q) = %s, want %s", c.account, KeyPart(c.account), c.owner)
		}
		if got := k.Anonymous(name); got != c.anonymous {
			t.Errorf("%s is anonymous: %v", name, got)
		}
	}
}

// Servers read some requests differently. Such a request has no key, and is refused: it must not have two.
func TestKeyOfDoubtfulRequests(t *testing.T) {
	k := key(t, "method", "path:1")
	override := http.Header{"X-Http-Method-Override": {"DELETE"}}
	for _, c := range []struct {
		route weir.Route
		err   error
	}{
		{Route("GET", "", "/a/b", nil), nil},
		{Route("GET", "", "/a%2fb", nil), ErrKeyPath},
		{Route("GET", "", "/a;x=1/b", nil), ErrKeyPath},
		{Route("GET", "", "/b/../a", nil), ErrKeyPath},
		{Route("GET", "", "//a/b", nil), ErrKeyPath},
		{Route("GET", "", "/a/b//", nil), nil},
		{Route("POST", "", "/a", override), ErrKeyMethod},
		{Route("DELETE", "", "/a", override), nil},
		{Route("GET", "", "/"+strings.Repeat("%3b", 400), nil), ErrKeyPath}, // too many readings
	} {
		_, err := k.Append(nil, &weir.Event{Route: c.route}, "")
		if !errors.Is(err, c.err) {
			t.Errorf("%+v: %v, want %v", c.route, err, c.err)
		}
	}
}

func TestKeyBounds(t *testing.T) {
	k := key(t, "account", "method")
	ev := weir.Event{Route: weir.Route{Method: "GET"}}
	ev.Account = strings.Repeat("a", MaxKey-len(",GET"))
	if got := written(t, k, &ev); len(got) != MaxKey {
		t.Errorf("%d bytes, want %d", len(got), MaxKey)
	}
	for _, account := range []string{ev.Account + "a", ev.Account[1:] + ",", strings.Repeat("x", 1<<20)} {
		if b, err := k.Append([]byte("before"), &ev, account); !errors.Is(err, ErrKeyTooLong) || string(b) != "before" {
			t.Errorf("%d bytes: %q, %v", len(account), b, err)
		}
	}
}

func TestKeyAllocatesNothing(t *testing.T) {
	k := key(t, "account", "method", "host", "path:1", "network", "header:X-Tenant")
	ev := &weir.Event{Account: "acme", Source: netip.MustParseAddr("2001:db8::1"), Route: Route("GET", "h", "/orders", nil),
		Parts: []weir.Part{{Name: "header:X-Tenant", Value: "t"}}}
	var room [2 * MaxKey]byte
	if n := testing.AllocsPerRun(100, func() { _, _ = k.Append(room[:0], ev, ev.Account) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseKey(t *testing.T) {
	for _, c := range []struct{ specs, want, free string }{
		{"account", "account", ""},
		{"header:x-tenant", "header:X-Tenant", "header:X-Tenant"},
		{"account method jwt:org cert:san country", "account,method,jwt:org,cert:san,country", ""},
		{"network:24/48 path:3", "network:24/48,path:3", "path:3"},
		{"network host", "network:32/64,host", "host"},
		{"cookie:s query:k bearer", "cookie:s,query:k,bearer", "cookie:s"},
	} {
		k, err := ParseKey(strings.Fields(c.specs))
		if err != nil || k.String() != c.want || k.Free() != c.free {
			t.Errorf("%s: %s, free %q, %v", c.specs, k.String(), k.Free(), err)
		}
	}
	for specs, want := range map[string]string{
		"acount":                `[0]: a key has no part "acount" (did you mean account?)`,
		"source":                "[0]: a key has no part source (write network)",
		"account account":       `[1]: "account" is listed twice (leave one out)`,
		"header:X-A header:x-a": `[1]: "header:x-a" is listed twice (leave one out)`,
		"country:DE":            "[0]: country takes no name (write country)",
		"network:33/64":         `[0]: "network:33/64" is not a network (write network:24/64, for the /24 of an IPv4 address and the /64 of an IPv6 address)`,
		"network:24":            `[0]: "network:24" is not a network (write network:24/64, for the /24 of an IPv4 address and the /64 of an IPv6 address)`,
		"path:0":                `[0]: "path:0" names no segment of the path (write path:1 for the first)`,
		strings.Repeat("account ", MaxKeyParts+1): "9 parts are too many (at most 8)",
	} {
		_, err := ParseKey(strings.Fields(specs))
		var got []string
		for _, fe := range weir.FieldErrors(err) {
			got = append(got, strings.TrimPrefix(fe.Path+": "+fe.Msg+" ("+fe.Hint+")", ": "))
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", specs, got, want)
		}
	}
}

// FuzzKey: two events have the same key only if all their parts are the same.
func FuzzKey(f *testing.F) {
	f.Add("acme", "t", "acme,t", "")
	f.Add("-", "", "", "-")
	f.Add(`a\`, `,b`, `a\,`, "b")
	f.Add("a\xff", "\x00", `a\xff`, `\x00`)
	f.Add("source:192.0.2.1/32", "", "", "")
	k := key(f, "account", "header:X-Tenant")
	f.Fuzz(func(t *testing.T, account1, tenant1, account2, tenant2 string) {
		of := func(account, tenant string) (string, error) {
			ev := weir.Event{Parts: []weir.Part{{Name: "header:X-Tenant", Value: tenant}}}
			b, err := k.Append(nil, &ev, account)
			return string(b), err
		}
		one, err1 := of(account1, tenant1)
		two, err2 := of(account2, tenant2)
		if err1 != nil || err2 != nil {
			return
		}
		if same := account1 == account2 && tenant1 == tenant2; same != (one == two) {
			t.Errorf("%q and %q: %s; %q and %q: %s", account1, tenant1, one, account2, tenant2, two)
		}
		if len(one) > MaxKey {
			t.Errorf("%d bytes", len(one))
		}
		if got := k.Owner(one); got != KeyPart(account1) {
			t.Errorf("the owner of %s is %s, want %s", one, got, KeyPart(account1))
		}
		if got := PlainPart(KeyPart(account1)); got != account1 {
			t.Errorf("%q became %q", account1, got)
		}
		_ = PlainPart(account2) // whatever an operator writes
		for _, r := range one {
			if r < ' ' || r == 0x7f || r == '\ufffd' && !strings.Contains(account1+tenant1, "\ufffd") {
				t.Errorf("%q is not legible", one)
			}
		}
	})
}
