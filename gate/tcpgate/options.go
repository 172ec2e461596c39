package tcpgate

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"weir"
	"weir/gate"
)

// A Protocol is what a gate forwards.
type Protocol string

// The two protocols.
const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
)

// A ProxyIn says whether the PROXY protocol is read from proxies in front of the gate.
type ProxyIn string

// What may be read.
const (
	ProxyInOff      ProxyIn = "off"
	ProxyInRequired ProxyIn = "required"
)

// A ProxyOut says whether the PROXY protocol is spoken to the upstream.
type ProxyOut string

// What may be spoken.
const (
	ProxyOutOff ProxyOut = "off"
	ProxyOutV1  ProxyOut = "v1"
	ProxyOutV2  ProxyOut = "v2"
)

// Options configure one gate for TCP connections or UDP packets.
type Options struct {
	// The address to listen on: ":5432", "127.0.0.1:5432".
	Listen string `yaml:"listen"`
	// What is forwarded: tcp (the default) or udp.
	Protocol Protocol `yaml:"protocol"`
	// The service behind the gate: 10.0.0.5:5432, db.example.com:5432, or for tcp a socket of this machine,
	// unix:/run/db.sock. With udp, a name is looked up when the gate starts and at each reload; with tcp, for each
	// connection.
	Upstream string `yaml:"upstream"`
	// The throttles that judge each connection before anything is read from it, in order. Connections from trusted
	// proxies are not counted. For tcp only.
	Accept []string `yaml:"accept"`
	// The throttles that judge each new connection, in order; their byte limits pace it. For udp they judge each
	// packet.
	Throttles []string `yaml:"throttles"`
	// Proxies in front of the gate, whose PROXY headers are believed. For tcp only. Default: none.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// PROXY headers, which tell the source of a connection. For tcp only.
	ProxyProtocol ProxyProtocol `yaml:"proxy_protocol"`
	// Bounds on what clients may take of the gate.
	Bounds Bounds `yaml:"bounds"`
	// How long the gate waits for clients and for the upstream.
	Timeouts Timeouts `yaml:"timeouts"`
}

// ProxyProtocol is where PROXY headers, which name the source of a connection, are read and written.
type ProxyProtocol struct {
	// Whether trusted proxies name the source: off (the default), or required: each connection from a trusted proxy
	// begins with a PROXY header of version 1 or 2, or is closed. What others send is never taken for one.
	In ProxyIn `yaml:"in"`
	// Whether the upstream is told the source: off (the default), or by a header of version v1 (a line of text) or v2
	// (binary).
	Out ProxyOut `yaml:"out"`
}

// Bounds keep clients from filling the server up.
type Bounds struct {
	// Open connections, for tcp. For one more, the source with the most loses its newest. If that source is the
	// newcomer's own, or has no more than others, the newcomer is closed at once. Default 20000.
	Connections int `yaml:"connections"`
	// Connections that a throttle may hold back at a time, for tcp. One more is closed. One source gets few of the last
	// tenth. Default 10000.
	Waiting int `yaml:"waiting"`
	// Clients with a session, for udp: an address and port each. For one more, the address with the most loses its
	// newest session. Where none has more than others, the packets of one more are dropped until one has been idle for
	// long enough. Default 10000.
	Clients int `yaml:"clients"`
	// The size of a packet or a reply, for udp. A larger one is dropped. Default 65507B.
	Packet weir.Size `yaml:"-"`
}

// Timeouts against slow clients and a slow upstream.
type Timeouts struct {
	// For a connection to the upstream. Default 5s.
	Connect weir.Duration `yaml:"connect"`
	// Without a byte in either direction: a connection is closed, a session forgotten. Default: 10m for tcp, 1m for
	// udp.
	Idle weir.Duration `yaml:"idle"`
	// For the PROXY header of a trusted proxy. Default 5s.
	Header weir.Duration `yaml:"header"`
}

// Bounds of the bounds.
const (
	maxCount  = 10_000_000
	maxPacket = 65_535 // the most that a length field of UDP can say
)

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.Protocol = cmp.Or(o.Protocol, TCP)
	o.ProxyProtocol.In = cmp.Or(o.ProxyProtocol.In, ProxyInOff)
	o.ProxyProtocol.Out = cmp.Or(o.ProxyProtocol.Out, ProxyOutOff)
	o.Bounds.Connections = cmp.Or(o.Bounds.Connections, 20_000)
	o.Bounds.Waiting = cmp.Or(o.Bounds.Waiting, 10_000)
	o.Bounds.Clients = cmp.Or(o.Bounds.Clients, 10_000)
	o.Bounds.Packet = cmp.Or(o.Bounds.Packet, 65_507)
	o.Timeouts.Connect = cmp.Or(o.Timeouts.Connect, weir.Duration(5*time.Second))
	o.Timeouts.Header = cmp.Or(o.Timeouts.Header, weir.Duration(5*time.Second))
	idle := 10 * time.Minute
	if o.Protocol == UDP {
		idle = time.Minute
	}
	o.Timeouts.Idle = cmp.Or(o.Timeouts.Idle, weir.Duration(idle))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. It does not know whether the throttles
// exist.
func (o Options) Validate() error {
	var v weir.Mistakes
	o.validateAddresses(&v)
	v.OneOf("protocol", string(o.Protocol), string(TCP), string(UDP))
	if o.Protocol == UDP {
		o.validateUDP(&v)
	}
	gate.ValidateProxies(&v, "trusted_proxies", o.TrustedProxies)
	v.OneOf("proxy_protocol.in", string(o.ProxyProtocol.In), string(ProxyInOff), string(ProxyInRequired))
	if o.ProxyProtocol.In == ProxyInRequired && len(o.TrustedProxies) == 0 {
		v.Add("proxy_protocol.in", "no proxy is trusted to name a source",
			"name the networks of your proxies under trusted_proxies")
	}
	v.OneOf("proxy_protocol.out", string(o.ProxyProtocol.Out), string(ProxyOutOff), string(ProxyOutV1),
		string(ProxyOutV2))
	v.Count("bounds.connections", o.Bounds.Connections, maxCount)
	v.Count("bounds.waiting", o.Bounds.Waiting, maxCount)
	v.Count("bounds.clients", o.Bounds.Clients, maxCount)
	v.Size("bounds.packet", o.Bounds.Packet, 1, maxPacket)
	v.Timeout("timeouts.connect", o.Timeouts.Connect)
	v.Timeout("timeouts.idle", o.Timeouts.Idle)
	v.Timeout("timeouts.header", o.Timeouts.Header)
	return v.Err()
}

func (o *Options) validateAddresses(v *weir.Mistakes) {
	host, port, wrong := weir.HostPort(o.Listen)
	if o.Listen == "" {
		v.Add("listen", "the gate has no address to listen on", `write listen: ":5432"`)
	} else if wrong != nil {
		v.Add("listen", wrong.Error(), `write ":5432" or "127.0.0.1:5432"`)
	}
	const hint = "write 127.0.0.1:5432, or for tcp unix:/run/db.sock"
	network, address := gate.Split(o.Upstream)
	upHost, upPort, unreachable := weir.HostPort(address)
	switch {
	case o.Upstream == "":
		v.Add("upstream", "the gate has no upstream", hint)
	case network == "unix" && address == "":
		v.Add("upstream", "the path of the socket is missing", hint)
	case network == "unix":
	case unreachable != nil || upHost == "" || upPort == "0":
		v.Add("upstream", fmt.Sprintf("%q is not a host with a port", o.Upstream), hint)
	case wrong == nil && port == upPort && port != "0" && sameHost(host, upHost):
		v.Add("upstream", fmt.Sprintf("%s is where the gate itself listens", o.Upstream),
			"give the gate another port than the service behind it")
	}
}

// validateUDP finds options that need connections.
func (o *Options) validateUDP(v *weir.Mistakes) {
	const hint = "leave it out, or write protocol: tcp"
	if network, _ := gate.Split(o.Upstream); network == "unix" {
		v.Add("upstream", "packets are not forwarded to a unix socket", "write 127.0.0.1:53")
	}
	if len(o.Accept) > 0 {
		v.Add("accept", "UDP has no connections to accept", "name the throttles under throttles")
	}
	if len(o.TrustedProxies) > 0 {
		v.Add("trusted_proxies", "no proxy names the source of a packet", hint)
	}
	for _, way := range [...][2]string{{"in", string(o.ProxyProtocol.In)}, {"out", string(o.ProxyProtocol.Out)}} {
		if way[1] != "" && way[1] != "off" {
			v.Add("proxy_protocol."+way[0], "packets bring no PROXY header", hint)
		}
	}
}

// sameHost reports whether a connection to the upstream's host reaches a gate that listens on another. It looks up no
// names: it is there to find typing mistakes.
func sameHost(listen, upstream string) bool {
	if listen == upstream {
		return true
	}
	at, err := netip.ParseAddr(listen)
	everywhere := listen == "" || err == nil && at.IsUnspecified()
	to, err := netip.ParseAddr(upstream)
	local := upstream == "localhost" || err == nil && (to.IsLoopback() || to.IsUnspecified())
	return everywhere && local
}
