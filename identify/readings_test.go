package identify

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// What a client may write into the forwarding headers: parts, in any order, as often as it likes.
var forgeries = []string{
	"", " ", ",", ", ", ";", `"`, `\`, `\"`, "=", "for=", "For=", "by=", "a=", `for="`, `a="x, y"`, "unknown",
	"_hidden", "garbage", "\t", "%", "::", "[", "]:80",
	"10.0.0.1", "10.0.0.2", "for=10.0.0.1", "198.51.100.1", "for=198.51.100.1", `for="198.51.100.1:80"`, "203.0.113.9",
	"for=203.0.113.9",
	"2001:db8::7", `for="[2001:db8::7]"`, "192.0.2.1, 10.0.0.1", "for=192.0.2.1, for=10.0.0.1;by=x",
	strings.Repeat("10.0.0.2, ", 33),
	strings.Repeat("for=10.0.0.2, ", 33), strings.Repeat("1", 300),
}

// forged draws the lines of one header as a client writes them.
func forged(t *rapid.T, name string) []string {
	line := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(forgeries), 0, 6),
		func(parts []string) string { return strings.Join(parts, "") })
	return rapid.SliceOfN(rapid.OneOf(line, rapid.StringMatching(`[ -~]{0,40}`)), 0, 4).Draw(t, name)
}

// relay is what an appending proxy makes of the lines of its header: it writes behind the last one, or a line of its
// own.
func relay(t *rapid.T, lines []string, element, name string) []string {
	if len(lines) == 0 || rapid.Bool().Draw(t, name) {
		return append(lines, element)
	}
	lines[len(lines)-1] += rapid.SampledFrom([]string{", ", ","}).Draw(t, name+" separator") + element
	return lines
}

// TestNobodyForgesTheirSource: a client behind proxies that append their peer to one header writes whatever it likes
// into both. It is charged by its own address, its ban holds, and no list frees it that does not have it.
func TestNobodyForgesTheirSource(t *testing.T) {
	needs.Unwatched(t)
	client, peer := netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("10.0.0.1")
	everyone := func(addr netip.Addr) bool { return addr != client } // the widest list without the client
	all := prefixes("0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/5", "200.0.0.0/7", "202.0.0.0/8", "203.0.112.0/24",
		"203.0.113.0/29", "2000::/8", "10.0.0.0/8")
	exempt := &Exempt{dns: newDNSCache()}
	addAll(&exempt.own, all)
	rapid.Check(t, func(t *rapid.T) {
		maintained := rapid.SampledFrom([]Header{XForwardedFor, ForwardedHeader}).Draw(t, "maintained")
		xff, fwd := forged(t, "X-Forwarded-For"), forged(t, "Forwarded")
		// The client connects to the first proxy, that one to the next one, and so on to the peer.
		hops := rapid.IntRange(0, 3).Draw(t, "proxies in front of the peer")
		for i := range hops + 1 {
			from := "203.0.113.9"
			if i > 0 {
				from = "10.0.0.2"
			}
			if maintained == XForwardedFor {
				xff = relay(t, xff, from+rapid.SampledFrom([]string{"", ":4711"}).Draw(t, "port"), "xff line")
			} else {
				element := rapid.SampledFrom([]string{"for=%", `for="%:80";proto=http`, `by=10.0.0.1;for=%;host="a, b"`,
					`For=%;host="a\"b\\"`}).Draw(t, "element")
				fwd = relay(t, fwd, strings.ReplaceAll(element, "%", from), "forwarded line")
			}
		}
		h := http.Header{}
		if len(xff) > 0 {
			h["X-Forwarded-For"] = xff
		}
		if len(fwd) > 0 {
			h["Forwarded"] = fwd
		}
		p := NewProxies(prefixes("10.0.0.0/8"), maintained)
		o := p.Source(peer, h)
		ev := weir.Event{Time: time.Unix(0, 0), Source: o.Addr, SourceUnknown: o.Unknown}
		if o.Addr != client || o.Unknown {
			t.Errorf("charged: %+v", o)
		}
		if ev.Freed(everyone) || exempt.KnownClient(&ev) {
			t.Errorf("let off by a list that does not have the client: %+v", o)
		}
		if !ev.Freed(func(a netip.Addr) bool { return a == client }) {
			t.Errorf("a client that is on a list is not let off: %+v", o)
		}
	})
}

// TestTheSourceMustBeKnown: networks of exempt, of bots, and what DNS has said free nobody whose source is unknown.
func TestTheSourceMustBeKnown(t *testing.T) {
	g, err := NewExempt(ExemptOptions{Networks: prefixes("192.0.2.0/24"), Bots: []Bot{
		{Name: "crawler", Agent: "crawler", Networks: prefixes("198.51.100.0/24")},
		{Name: "named", Agent: "crawler", Domains: []string{"bot.example"}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Unsure(func(netip.Addr) {})
	now := time.Unix(1000, 0)
	g.Confirm(netip.MustParseAddr("203.0.113.1"), []string{"a.bot.example"}, now)
	for _, a := range []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "::ffff:192.0.2.9"} {
		ev := weir.Event{Time: now, Source: netip.MustParseAddr(a), Agent: "crawler/1"}
		if !g.KnownClient(&ev) {
			t.Errorf("%s is not known", a)
		}
		if n := testing.AllocsPerRun(100, func() { g.KnownClient(&ev) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
		if ev.SourceUnknown = true; g.KnownClient(&ev) {
			t.Errorf("somebody behind %s is known", a)
		}
	}
}

// TestReadFromTheRight: of lines that keep to the grammar, the elements are the same from the right as from the left.
func TestReadFromTheRight(t *testing.T) {
	needs.Unwatched(t)
	element := rapid.SampledFrom([]string{"", "for=1.1.1.1", `for="[2001:db8::7]:80";proto=http`, `a="x, y";for=_h`,
		`by="\"";a="\\";c=d`, `a="\\\", for=9"`, `a=""`})
	rapid.Check(t, func(t *rapid.T) {
		elements := rapid.SliceOfN(element, 1, 6).Draw(t, "elements")
		line := strings.Join(elements, rapid.SampledFrom([]string{",", ", ", " ,\t"}).Draw(t, "separator"))
		if !WellForwarded([]string{line}) {
			t.Fatalf("%q is not well", line)
		}
		for i, rest, more := len(elements)-1, line, true; more; i-- {
			var got string
			if rest, got, more = lastElement(rest); strings.Trim(got, " \t") != elements[i] || more != (i > 0) {
				t.Fatalf("%q: %q, %v, want %q", line, got, more, elements[i])
			}
		}
		if broken := line + rapid.SampledFrom([]string{`, a="`, ", b", `, for=1;for=2`, `,"`, `, a=1 2`, `, \`}).Draw(t,
			"broken"); WellForwarded([]string{line, broken}) {
			t.Fatalf("%q is well", broken)
		}
	})
}

// TestToldOnASocket: a peer without an address is believed; a header that breaks off leaves nobody.
func TestToldOnASocket(t *testing.T) {
	p := NewProxies(nil, XForwardedFor)
	for _, c := range []struct {
		xff, fwd string
		want     Origin
	}{
		{"203.0.113.9", "", Origin{Addr: netip.MustParseAddr("203.0.113.9"), Proxied: true, XForwardedFor: true}},
		{"garbage", "", Origin{Unknown: true, Proxied: true, XForwardedFor: true}},
		{"garbage", "for=203.0.113.9", Origin{Unknown: true, Proxied: true, XForwardedFor: true}},
		{"", "", Origin{Proxied: true}},
	} {
		h := http.Header{}
		if c.xff != "" {
			h.Set("X-Forwarded-For", c.xff)
		}
		if c.fwd != "" {
			h.Set("Forwarded", c.fwd)
		}
		if got := p.Told(netip.Addr{}, h); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
