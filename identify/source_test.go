package identify

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(all ...string) (p []netip.Prefix) {
	for _, s := range all {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

func TestSource(t *testing.T) {
	trusted := prefixes("10.0.0.0/8", "2001:db8:1::/48", "::ffff:192.168.0.0/112")
	for _, c := range []struct {
		name, peer string
		header     Header
		xff, fwd   []string
		want       string // the source, | and the other reading, ? where it is not known
		proxied    bool
	}{
		{"stranger", "203.0.113.9", "", []string{"1.1.1.1"}, nil, "203.0.113.9", false},
		{"stranger v6 with zone", "fe80::1%eth0", "", []string{"1.1.1.1"}, nil, "fe80::1", false},
		{"mapped stranger", "::ffff:203.0.113.9", "", nil, nil, "203.0.113.9", false},
		{"no header", "10.0.0.1", "", nil, nil, "10.0.0.1", true},
		{"mapped proxy", "::ffff:10.0.0.1", "", []string{"1.1.1.1"}, nil, "1.1.1.1", true},
		{"mapped prefix", "192.168.0.1", "", []string{"1.1.1.1"}, nil, "1.1.1.1", true},
		{"right-most untrusted", "10.0.0.1", "", []string{"9.9.9.9, 1.1.1.1, 10.0.0.7"}, nil, "1.1.1.1", true},
		{"several lines", "10.0.0.1", "", []string{"9.9.9.9", "1.1.1.1", "10.0.0.7, 10.0.0.8"}, nil, "1.1.1.1", true},
		{"all trusted", "10.0.0.1", "", []string{"10.0.0.3, 10.0.0.2"}, nil, "10.0.0.3", true},
		{"v6 with port", "2001:db8:1::1", "", []string{"[2001:db8:2::7]:443"}, nil, "2001:db8:2::7", true},
		{"v6 plain", "10.0.0.1", "", []string{"2001:db8:2::7"}, nil, "2001:db8:2::7", true},
		{"v4 with port", "10.0.0.1", "", []string{"1.1.1.1:4711"}, nil, "1.1.1.1", true},
		{"v4 mapped", "10.0.0.1", "", []string{"::ffff:1.1.1.1"}, nil, "1.1.1.1", true},
		{"garbage stops", "10.0.0.1", "", []string{"1.1.1.1, unknown, 10.0.0.2"}, nil, "10.0.0.2?", true},
		{"empty stops", "10.0.0.1", "", []string{"1.1.1.1, , 10.0.0.2"}, nil, "10.0.0.2?", true},
		{"bad port stops", "10.0.0.1", "", []string{"1.1.1.1:x"}, nil, "10.0.0.1?", true},
		{"32 hops", "10.0.0.1", "", []string{"1.1.1.1" + strings.Repeat(", 10.0.0.2", 31)}, nil, "1.1.1.1", true},
		{"33 hops", "10.0.0.1", "", []string{"1.1.1.1" + strings.Repeat(", 10.0.0.2", 32)}, nil, "10.0.0.2?", true},
		{"long element", "10.0.0.1", "", []string{strings.Repeat("1", 300)}, nil, "10.0.0.1?", true},
		{"forwarded", "10.0.0.1", ForwardedHeader, nil,
			[]string{`for=9.9.9.9, for="[2001:db8:2::7]:4711";proto=http;by=10.0.0.1`}, "2001:db8:2::7", true},
		{"forwarded two lines", "10.0.0.1", ForwardedHeader, nil, []string{`For=1.1.1.1`, `proto=https;FOR=10.0.0.2`},
			"1.1.1.1", true},
		{"forwarded hidden", "10.0.0.1", ForwardedHeader, nil, []string{`for=1.1.1.1, for=_hidden, for=10.0.0.2`},
			"10.0.0.2?", true},
		{"forwarded unknown", "10.0.0.1", ForwardedHeader, nil, []string{`for=unknown`}, "10.0.0.1?", true},
		{"forwarded without for", "10.0.0.1", ForwardedHeader, nil, []string{`for=1.1.1.1, proto=http`}, "10.0.0.1?",
			true},
		{"forwarded unquoted v6", "10.0.0.1", ForwardedHeader, nil, []string{`for=[2001:db8:2::7]:80;proto=http`},
			"2001:db8:2::7", true},
		{"forwarded obfuscated port", "10.0.0.1", ForwardedHeader, nil, []string{`for="1.1.1.1:_x"`}, "1.1.1.1", true},
		{"forwarded open quote", "10.0.0.1", ForwardedHeader, nil, []string{`for="9.9.9.9, for=1.1.1.1`}, "1.1.1.1",
			true},
		{"forwarded swallowing", "10.0.0.1", ForwardedHeader, nil, []string{`for=9.9.9.9;a=", for="[2001:db8:2::7]"`},
			"2001:db8:2::7", true},
		{"forwarded comma in quotes", "10.0.0.1", ForwardedHeader, nil,
			[]string{`for=9.9.9.9;a="x, for=8.8.8.8", for=1.1.1.1`}, "1.1.1.1", true},
		{"forwarded backslash", "10.0.0.1", ForwardedHeader, nil, []string{`for="1.1.1\.1"`}, "10.0.0.1?", true},
		{"forwarded double for", "10.0.0.1", ForwardedHeader, nil, []string{`for=1.1.1.1;for=9.9.9.9`}, "10.0.0.1?",
			true},
		{"forwarded 33 hops", "10.0.0.1", ForwardedHeader, nil,
			[]string{"for=1.1.1.1" + strings.Repeat(", for=10.0.0.2", 32)}, "10.0.0.2?", true},
		{"forwarded 32 hops", "10.0.0.1", ForwardedHeader, nil,
			[]string{"for=1.1.1.1" + strings.Repeat(", for=10.0.0.2", 31)}, "1.1.1.1", true},
		{"both, one maintained", "10.0.0.1", XForwardedFor, []string{"1.1.1.1"}, []string{"for=9.9.9.9"}, "1.1.1.1",
			true},
		{"both, other maintained", "10.0.0.1", ForwardedHeader, []string{"1.1.1.1"}, []string{"for=9.9.9.9"}, "9.9.9.9",
			true},
		{"only the wrong one", "10.0.0.1", ForwardedHeader, []string{"1.1.1.1"}, nil, "10.0.0.1?", true},
		{"the default", "10.0.0.1", "", []string{"1.1.1.1"}, []string{"for=9.9.9.9"}, "1.1.1.1", true},
		{"only the other one", "10.0.0.1", "", nil, []string{"for=9.9.9.9"}, "10.0.0.1?", true},
		{"empty line", "10.0.0.1", "", []string{""}, nil, "10.0.0.1?", true},
		{"empty line in front", "10.0.0.1", "", []string{"", "1.1.1.1"}, nil, "1.1.1.1", true},
		{"forwarded open quote behind a proxy", "10.0.0.1", ForwardedHeader, nil,
			[]string{`a="\, for=1.1.1.1;host="a, b", for=10.0.0.2`}, "1.1.1.1", true},
		{"forwarded ends in a quote", "10.0.0.1", ForwardedHeader, nil, []string{`for=1.1.1.1"`}, "10.0.0.1?", true},
		{"forwarded escaped quote", "10.0.0.1", ForwardedHeader, nil, []string{`for=1.1.1.1;a="x\", for=9.9.9.9;b=\\"`},
			"1.1.1.1", true},
	} {
		p := NewProxies(trusted, c.header)
		h := http.Header{}
		if c.xff != nil {
			h["X-Forwarded-For"] = c.xff
		}
		if c.fwd != nil {
			h["Forwarded"] = c.fwd
		}
		o := p.Source(netip.MustParseAddr(c.peer), h)
		got := o.Addr.String()
		if o.Unknown {
			got += "?"
		}
		if got != c.want || o.Proxied != c.proxied {
			t.Errorf("%s: %s of %+v, want %s", c.name, got, o, c.want)
		}
	}
}

func TestSourceAllocates(t *testing.T) {
	p := NewProxies(prefixes("10.0.0.0/8"), ForwardedHeader)
	h := http.Header{"X-Forwarded-For": {"1.1.1.1, 10.0.0.2"}, "Forwarded": {`for=1.1.1.1, for=10.0.0.2`}}
	peer := netip.MustParseAddr("10.0.0.1")
	if n := testing.AllocsPerRun(100, func() { p.Source(peer, h) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNetwork(t *testing.T) {
	for _, c := range []struct {
		addr   string
		v4, v6 int
		want   string
	}{
		{"192.0.2.77", 24, 64, "192.0.2.0/24"},
		{"::ffff:192.0.2.77", 24, 64, "192.0.2.0/24"},
		{"2001:db8:1:2:3::4", 24, 64, "2001:db8:1:2::/64"},
		{"fe80::1%eth0", 24, 64, "fe80::/64"},
	} {
		if got := Network(netip.MustParseAddr(c.addr), c.v4, c.v6); got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.addr, got, c.want)
		}
	}
	if Network(netip.Addr{}, 24, 64).IsValid() || Network(netip.MustParseAddr("1.1.1.1"), 99, 64).IsValid() {
		t.Error("a network of nothing")
	}
}

// FuzzSource: whatever a stranger writes left of what the proxy appended, the source is what the proxy appended.
func FuzzSource(f *testing.F) {
	f.Add("9.9.9.9", `for=9.9.9.9;a="`)
	f.Add("unknown, ,", `for="[::1]";host="a\"`)
	f.Fuzz(func(t *testing.T, xff, fwd string) {
		peer, want := netip.MustParseAddr("10.0.0.1"), Origin{Addr: netip.MustParseAddr("203.0.113.9"), Proxied: true}
		p := NewProxies(prefixes("10.0.0.0/8"), "")
		want.XForwardedFor = true
		if o := p.Source(peer, http.Header{"X-Forwarded-For": {xff + ", 203.0.113.9"}, "Forwarded": {fwd}}); o != want {
			t.Errorf("%q and %q make the source %+v", xff, fwd, o)
		}
		p, want.XForwardedFor, want.Forwarded = NewProxies(prefixes("10.0.0.0/8"), ForwardedHeader), false, true
		for _, appended := range []string{", for=203.0.113.9", `, for="203.0.113.9:80";proto=http`,
			`, for=203.0.113.9;host="a:80"`} {
			if o := p.Source(peer, http.Header{"X-Forwarded-For": {xff}, "Forwarded": {fwd + appended}}); o != want {
				t.Errorf("%q and %q make the source %+v", xff, fwd+appended, o)
			}
		}
	})
}
