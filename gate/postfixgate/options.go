package postfixgate

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"weir"
	"weir/gate"
	"weir/identify"
	"weir/mail/nexthop"
)

// An Over says what Postfix does with a message that may not go on at once.
type Over string

// What it may do.
const (
	OverFilter Over = "filter" // hands it to weir, which delays it
	OverHold   Over = "hold"   // keeps it until somebody releases it by postsuper -H
	OverDefer  Over = "defer"  // does not take it; the client may try again
	OverReject Over = "reject" // refuses it
)

// A Refusal is how somebody is refused.
type Refusal string

// The two of them.
const (
	Reject Refusal = "reject" // permanently: the program tells its user at once
	Defer  Refusal = "defer"  // for now: a server that sends for the user tries again
)

// A Doubt says what is answered where the gate cannot judge.
type Doubt string

// What may be answered.
const (
	DoubtDefer Doubt = "defer" // DEFER_IF_PERMIT: the client tries again
	DoubtPass  Doubt = "pass"  // DUNNO: the mail goes on uncounted
)

// Options configure one policy service for Postfix.
type Options struct {
	// Where Postfix asks: "127.0.0.1:10040", or a socket of this machine, unix:/var/spool/postfix/weir/policy. It must
	// be reachable from inside Postfix' chroot where smtpd runs in one.
	Listen string `yaml:"listen"`
	// Who may use the socket, where listen is one. Write group: postfix, and let weir's user be in that group.
	Socket gate.Socket `yaml:"socket"`
	// The networks from which Postfix may ask. Anybody who can ask can use up the limits of users. Default: this
	// machine.
	Clients []netip.Prefix `yaml:"clients"`
	// Which spellings of a login at Postfix are the same user: your domain, as in example.org, or keep. With a domain,
	// ann, ann+x and ann@example.org are the user ann@example.org, everywhere: here, in throttles, in commands and in
	// calls. With keep, only upper and lower case are the same: write it if each user can log in under one name only.
	// All gates have the same one, which stands at one or at all. Needed.
	Realm string `yaml:"realm"`
	// Networks whose clients send without logging in: what they send is charged to their addresses, and of IPv6 to
	// their /64. Other mail without a login is incoming mail, and is not judged. Default: none.
	Networks []netip.Prefix `yaml:"networks"`
	// The throttles that judge each message, in order. One of them may be a mail throttle, which judges it last. They
	// know the size of a message if the client has declared it, or if Postfix asks only at its end.
	Throttles []string `yaml:"throttles"`
	// The throttles that judge each recipient, in order. Recipients that are not counted (internal, support, the
	// users themselves) are not judged.
	PerRecipient []string `yaml:"per_recipient"`
	// What happens to a message that may not go on at once: filter (the default where filter is given), defer (the
	// default elsewhere), hold or reject. All but filter act on the whole message, and count it as waiting, so that a
	// user who keeps sending is stopped.
	Over Over `yaml:"over"`
	// Where messages go that have to wait, written as Postfix writes transport and next hop: smtp:[127.0.0.1]:2526, a
	// gate for mail with the same mail throttle and marks on. It delays them and hands them back to Postfix, on a port
	// where it does not ask again.
	Filter string `yaml:"filter"`
	// What stopped users are told: reject (the default) or defer.
	Stopped Refusal `yaml:"stopped"`
	// What is answered where a message cannot be judged, for instance because the store fails: defer (the default) or
	// pass.
	OnError Doubt `yaml:"on_error"`
	// What is answered where a bound is reached, or the gate was not asked about all recipients of a message: defer
	// (the default) or pass.
	OnBound Doubt `yaml:"on_bound"`
	// The server that notices to stopped users are handed to. Default 127.0.0.1:25, which is Postfix itself.
	NextHop nexthop.Options `yaml:"next_hop"`
	// Who is told by mail when a user is stopped. Default: nobody.
	Admin string `yaml:"admin"`
	// The address to which users reply with commands about held mail, where a gate for mail takes them. Default: none.
	Command string `yaml:"command"`
	// Bounds on what may be asked and remembered.
	Bounds Bounds `yaml:"bounds"`
	// How long things may take.
	Timeouts Timeouts `yaml:"timeouts"`
}

// Bounds keep what is asked from filling the server up.
type Bounds struct {
	// Open connections. For one more, the address with the most loses its newest, or the newcomer is closed. Default
	// 1000; each smtpd of Postfix has one.
	Connections int `yaml:"connections"`
	// Messages whose recipients are being collected. Default 10000.
	Mails int `yaml:"-"`
	// Recipients of a message. Default 1000.
	Recipients int `yaml:"recipients"`
	// The memory for the recipients of all these messages. Default 64MiB.
	Memory weir.Size `yaml:"-"`
}

// Timeouts against silent clients and a slow store.
type Timeouts struct {
	// Without a request; the connection is closed. Postfix closes it first, after 5 minutes, and keeps none for more
	// than 17. Default 20m.
	Idle weir.Duration `yaml:"-"`
	// For an answer. Postfix waits for 100 seconds. Default 30s.
	Answer weir.Duration `yaml:"answer"`
	// Without a word about a message; its recipients are forgotten. Default 1h.
	Mail weir.Duration `yaml:"-"`
}

// Bounds of the bounds.
const (
	maxConnections = 100_000
	maxMails       = 1_000_000
	maxRecipients  = 10_000
	maxMemory      = 4 << 30
)

// thisMachine is who may ask unless somebody else is named.
var thisMachine = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	if network, _ := gate.Split(o.Listen); network == "unix" {
		o.Socket.Mode = cmp.Or(o.Socket.Mode, "0660")
	} else if len(o.Clients) == 0 {
		o.Clients = thisMachine
	}
	over := OverDefer
	if o.Filter != "" {
		over = OverFilter
	}
	o.Over = cmp.Or(o.Over, over)
	o.Realm = cmp.Or(o.Realm, identify.KeepRealm)
	o.Stopped = cmp.Or(o.Stopped, Reject)
	if len(o.NextHop.Servers) == 0 {
		o.NextHop.Servers = []string{"127.0.0.1:25"}
	}
	o.NextHop = o.NextHop.WithDefaults()
	o.OnError = cmp.Or(o.OnError, DoubtDefer)
	o.OnBound = cmp.Or(o.OnBound, DoubtDefer)
	o.Bounds.Connections = cmp.Or(o.Bounds.Connections, 1000)
	o.Bounds.Mails = cmp.Or(o.Bounds.Mails, 10_000)
	o.Bounds.Recipients = cmp.Or(o.Bounds.Recipients, 1000)
	o.Bounds.Memory = cmp.Or(o.Bounds.Memory, 64<<20)
	o.Timeouts.Idle = cmp.Or(o.Timeouts.Idle, weir.Duration(20*time.Minute))
	o.Timeouts.Answer = cmp.Or(o.Timeouts.Answer, weir.Duration(30*time.Second))
	o.Timeouts.Mail = cmp.Or(o.Timeouts.Mail, weir.Duration(time.Hour))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. Whether the throttles exist is for others
// to say.
func (o Options) Validate() error {
	var v weir.Mistakes
	o.validateListen(&v)
	o.validateNetworks(&v)
	switch o.Over {
	case "", OverHold, OverDefer, OverReject:
		if o.Filter != "" && o.Over != "" {
			v.Add("filter", fmt.Sprintf("nothing is diverted with over: %s", o.Over),
				"write over: filter, or leave filter out")
		}
	case OverFilter:
		if o.Filter == "" {
			v.Add("filter", "over: filter needs a filter to divert mail to",
				"write smtp:[127.0.0.1]:2526, where a gate for mail listens")
		}
	default:
		v.OneOf("over", string(o.Over), string(OverFilter), string(OverHold), string(OverDefer), string(OverReject))
	}
	if o.Filter != "" && !isFilter(o.Filter) {
		v.Add("filter", fmt.Sprintf("%q is not a transport with a next hop", o.Filter), "write smtp:[127.0.0.1]:2526")
	}
	if o.Realm != "" && !identify.IsRealm(o.Realm) {
		v.Add("realm", fmt.Sprintf("%q is not a domain", o.Realm), "write example.org, or keep")
	}
	if o.Command != "" && strings.EqualFold(o.Command, o.Admin) {
		v.Add("command",
			fmt.Sprintf("%q is the address of a person: messages to it would be read as commands", o.Command),
			"write weir@example.org")
	}
	v.OneOf("stopped", string(o.Stopped), string(Reject), string(Defer))
	v.OneOf("on_error", string(o.OnError), string(DoubtDefer), string(DoubtPass))
	v.OneOf("on_bound", string(o.OnBound), string(DoubtDefer), string(DoubtPass))
	v.Count("bounds.connections", o.Bounds.Connections, maxConnections)
	v.Count("bounds.mails", o.Bounds.Mails, maxMails)
	v.Count("bounds.recipients", o.Bounds.Recipients, maxRecipients)
	v.Size("bounds.memory", o.Bounds.Memory, 1, maxMemory)
	for _, t := range []struct {
		path string
		got  weir.Duration
	}{{"idle", o.Timeouts.Idle}, {"answer", o.Timeouts.Answer}, {"mail", o.Timeouts.Mail}} {
		v.Seconds("timeouts."+t.path, t.got)
	}
	return v.Err()
}

func (o *Options) validateListen(v *weir.Mistakes) {
	listen := gate.Address{Listen: o.Listen, Socket: o.Socket, TCP: "127.0.0.1:10040",
		Unix: "unix:/var/spool/postfix/weir/policy"}
	listen.Validate(v)
	network, _ := gate.Split(o.Listen)
	if len(o.Clients) > 0 && network == "unix" {
		v.Add("clients", "nobody has an address on a socket of this machine",
			"leave it out; socket.mode and socket.group say who may ask")
	}
}

func (o *Options) validateNetworks(v *weir.Mistakes) {
	for _, list := range []struct {
		path, everybody, hint string
		all                   []netip.Prefix
	}{
		{"clients", "lets everybody use up the limits of users", "name the machines that Postfix runs on", o.Clients},
		{"networks", "treats all incoming mail as mail of users",
			"name the networks of clients that do not log in", o.Networks},
	} {
		for i, prefix := range list.all {
			at := fmt.Sprintf("%s[%d]", list.path, i)
			if !prefix.IsValid() {
				v.Add(at, "not a network", "write 10.0.0.0/8 or 2001:db8::/32")
			} else if prefix.Bits() == 0 {
				v.Add(at, fmt.Sprintf("%s %s", prefix, list.everybody), list.hint)
			}
		}
	}
}

// isFilter reports whether a text is a transport of Postfix with a next hop, and nothing that would end the line of an
// answer.
func isFilter(text string) bool {
	transport, hop, found := strings.Cut(text, ":")
	if !found || transport == "" || hop == "" || len(text) > 512 {
		return false
	}
	host, port, brackets := strings.Cut(strings.TrimPrefix(hop, "["), "]:")
	if !brackets {
		host, port, _ = strings.Cut(hop, ":")
	}
	if port != "" && strings.Trim(port, "0123456789") == "" {
		host = strings.TrimPrefix(strings.ToLower(host), "ipv6:")
		if _, _, err := weir.HostPort(net.JoinHostPort(host, port)); err != nil {
			return false
		}
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
