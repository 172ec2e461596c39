package tcpgate

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestDefaults(t *testing.T) {
	tcp := Options{Listen: ":5432", Upstream: "10.0.0.5:5432"}
	o := tcp.WithDefaults()
	want := Options{Listen: ":5432", Protocol: TCP, Upstream: "10.0.0.5:5432",
		ProxyProtocol: ProxyProtocol{In: ProxyInOff, Out: ProxyOutOff},
		Bounds:        Bounds{Connections: 20000, Waiting: 10000, Clients: 10000, Packet: 65507},
		Timeouts: Timeouts{Connect: weir.Duration(5 * time.Second), Idle: weir.Duration(10 * time.Minute),
			Header: weir.Duration(5 * time.Second)}}
	if o.Protocol != want.Protocol || o.ProxyProtocol != want.ProxyProtocol || o.Bounds != want.Bounds ||
		o.Timeouts != want.Timeouts {
		t.Errorf("%+v", o)
	}
	udp := Options{Listen: ":53", Protocol: UDP, Upstream: "10.0.0.5:53"}
	if idle := udp.WithDefaults().Timeouts.Idle.Std(); idle != time.Minute {
		t.Errorf("idle %s", idle)
	}
	for _, o := range []Options{tcp, tcp.WithDefaults(), udp, udp.WithDefaults()} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, bad := range map[string]Options{
		"listen upstream":    {},
		"listen":             {Listen: "5432", Upstream: "10.0.0.5:5432"},
		"protocol":           {Listen: ":1", Upstream: "a:2", Protocol: "tpc"},
		"proxy_protocol.in":  {Listen: ":1", Upstream: "a:2", ProxyProtocol: ProxyProtocol{In: ProxyInRequired}},
		"proxy_protocol.out": {Listen: ":1", Upstream: "a:2", ProxyProtocol: ProxyProtocol{Out: "v3"}},
		"trusted_proxies[0] trusted_proxies[1] proxy_protocol.in bounds.connections bounds.waiting bounds.clients " +
			"bounds.packet timeouts.connect timeouts.idle timeouts.header": {
			Listen: ":1", Upstream: "a:2", TrustedProxies: []netip.Prefix{{}, netip.MustParsePrefix("::/0")},
			ProxyProtocol: ProxyProtocol{In: "on"},
			Bounds:        Bounds{Connections: -1, Waiting: -1, Clients: maxCount + 1, Packet: maxPacket + 1},
			Timeouts:      Timeouts{Connect: -1, Idle: -1, Header: -1}},
		"upstream accept trusted_proxies proxy_protocol.in proxy_protocol.out": {Listen: ":1", Upstream: "unix:/x",
			Protocol: UDP, Accept: []string{"edge"},
			TrustedProxies: prefixes("10.0.0.0/8"), ProxyProtocol: ProxyProtocol{In: ProxyInRequired, Out: ProxyOutV1}},
	} {
		var paths []string
		for _, fe := range weir.FieldErrors(bad.Validate()) {
			paths = append(paths, fe.Path)
			if fe.Msg == "" || fe.Hint == "" {
				t.Errorf("%v has no hint", fe)
			}
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		if _, err := New(bad, nil, nil, Env{}); err == nil {
			t.Error("a gate with mistakes")
		}
	}
	if err := (Options{Listen: ":1", Upstream: "a:2", Protocol: "tpc"}).Validate(); !strings.Contains(err.Error(),
		`did you mean "tcp"?`) {
		t.Error(err)
	}
}

func TestUpstream(t *testing.T) {
	for _, c := range []struct {
		listen, upstream string
		ok               bool
	}{
		{":5432", "127.0.0.1:5433", true},
		{":5432", "db.example.com:5432", true},
		{":5432", "[2001:db8::1]:5432", true},
		{":5432", "unix:/run/db.sock", true},
		{"192.0.2.1:5432", "127.0.0.1:5432", true},
		{":0", "127.0.0.1:1", true},
		{":5432", "unix:", false},
		{":5432", "db.example.com", false},
		{":5432", ":5433", false},
		{":5432", "db:0", false},
		{":5432", "db:70000", false},
		{":5432", "tcp://db:1", false},
		{":5432", "127.0.0.1:5432", false}, // itself
		{"[::]:5432", "localhost:5432", false},
		{"192.0.2.1:5432", "192.0.2.1:5432", false},
	} {
		o := Options{Listen: c.listen, Upstream: c.upstream}
		if err := o.Validate(); (err == nil) != c.ok {
			t.Errorf("%s to %s: %v", c.listen, c.upstream, err)
		}
	}
}

func TestBoundNames(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range BoundNames {
		if name == "" || seen[name] {
			t.Errorf("%q", name)
		}
		seen[name] = true
	}
}
