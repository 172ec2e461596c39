package smtpgate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir"
	"weir/identify"
	"weir/internal/shown"
	"weir/mail/notice"
	"weir/mail/spool"
)

// Bounds of the bounds.
const (
	maxCount      = 10_000_000
	maxRecipients = 10_000
	maxMessage    = 1 << 30
	maxHeader     = 16 << 20
	minLine       = 1000 // RFC 5321 section 4.5.3.1.6
	maxLine       = 1 << 20
	maxHostname   = 255
	// maxCommandName leaves space for a ticket in the part before the @, which has 64 characters.
	maxCommandName = 64 - 1 - notice.MaxTicket
)

// Validate returns every mistake in the options, as joined weir.FieldErrors: above all, whatever would make the gate an
// open relay or send passwords over the network in clear text. Package config checks whether the throttles exist.
func (o Options) Validate() error {
	var v weir.Mistakes
	host, ok := o.validateListen(&v)
	postmaster := o.Postmaster
	o = o.WithDefaults()
	if o.Hostname != "" && !plainHost(o.Hostname) {
		v.Add("hostname", fmt.Sprintf("%q is not the name of a machine", o.Hostname), "write mail.example.org")
	}
	o.validateTLS(&v)
	o.Held.validate(&v)
	v.Under("next_hop", o.NextHop.Validate())
	v.OneOf("auth", string(o.Auth), string(AuthUsers), string(AuthNextHop), string(AuthNone))
	if o.Auth == AuthNone && len(o.Networks) == 0 {
		v.Add("auth", "nobody could send: there is no AUTH, and no network that may send without it",
			"name your networks under networks, or write auth: users")
	}
	if ok && !o.encrypted() && o.Auth != AuthNone && !loopback(host) {
		v.Add("tls", "passwords would cross the network in clear text",
			"give tls a cert and a key, or listen on 127.0.0.1, or write auth: none")
	}
	validateNetworks(&v, o.Networks)
	for _, address := range []struct{ path, text string }{{"command", o.Command}, {"admin", o.Admin},
		{"postmaster", postmaster}} {
		if address.text == "" {
			continue
		}
		if _, err := parseAddress(address.text, false); err != nil {
			v.Add(address.path, fmt.Sprintf("%q is not an address", address.text), "write name@example.org")
		}
	}
	if o.Marks && len(o.Networks) == 0 {
		v.Add("marks", "no server may hand on mail: there are no networks",
			"write networks: [127.0.0.0/8], where Postfix is")
	}
	o.validateRealm(&v)
	if local, _, _ := strings.Cut(o.Command, "@"); len(local) > maxCommandName {
		v.Add("command", fmt.Sprintf("the part before the @ is %d characters long", len(local)),
			fmt.Sprintf("at most %d: weir adds what a command is about", maxCommandName))
	} else if strings.Contains(local, "+") {
		v.Add("command", fmt.Sprintf("%q has a +, behind which weir puts what a command is about", o.Command),
			"write weir@example.org")
	} else if strings.EqualFold(local, "postmaster") || o.takesFrom(o.Postmaster) || o.takesFrom(o.Admin) {
		v.Add("command",
			fmt.Sprintf("%q is the address of a person: messages to it would be read as commands", o.Command),
			"write weir@example.org")
	}
	v.OneOf("stopped", string(o.Stopped), string(RefuseMail), string(RefuseAuth))
	v.OneOf("senders", string(o.Senders), string(SendersAny), string(SendersBound))
	v.OneOf("ambiguous", string(o.Ambiguous), string(spool.Retry), string(spool.Hold))
	if s := o.Stamps; s != nil {
		v.OneOf("stamps.on_invalid", string(s.OnInvalid), string(FateRefuse), string(FatePool))
		if s.FromLoad < 0 {
			v.Add("stamps.from_load", "a load cannot be negative", "write 90%")
		}
	}
	o.validateBounds(&v)
	return v.Err()
}

// takesFrom reports whether messages to another address would be taken for commands.
func (o *Options) takesFrom(other string) bool {
	at := strings.LastIndexByte(other, '@')
	if o.Command == "" || at < 0 {
		return false
	}
	local, _, _ := strings.Cut(other[:at], "+")
	return strings.EqualFold(local+other[at:], o.Command)
}

func (o *Options) validateRealm(v *weir.Mistakes) {
	const hint = "write auth: next_hop, or leave it out"
	if o.Auth == AuthNone && o.Realm != "" {
		v.Add("realm", "nobody logs in here", "leave it out")
	} else if o.Realm != "" && !identify.IsRealm(o.Realm) {
		v.Add("realm", fmt.Sprintf("%q is not a domain", o.Realm), "write example.org, or keep")
	}
	if o.Auth != AuthNextHop && o.KnownOnly {
		v.Add("known_only", "it has an effect only with auth: next_hop", hint)
	}
}

// validateListen returns the host to listen on, if it is valid.
func (o *Options) validateListen(v *weir.Mistakes) (host string, ok bool) {
	if o.Listen == "" {
		v.Add("listen", "the gate has no address to listen on", `write listen: ":587"`)
		return "", false
	}
	host, _, err := weir.HostPort(o.Listen)
	if err != nil {
		v.Add("listen", err.Error(), `write ":587" or "127.0.0.1:2525"`)
	}
	return host, err == nil
}

func (o *Options) validateTLS(v *weir.Mistakes) {
	v.OneOf("tls.mode", string(o.TLS.Mode), string(TLSStart), string(TLSImplicit), string(TLSNone))
	const hint = "name the files of a certificate and of its key"
	switch {
	case o.TLS.Mode == TLSNone && (o.TLS.Cert != "" || o.TLS.Key != ""):
		v.Add("tls.mode", "there is a certificate, and it would not be used",
			"write mode: starttls, or leave cert and key out")
	case o.encrypted() && o.TLS.Cert == "":
		v.Add("tls.cert", "the certificate is missing", hint)
	case o.encrypted() && o.TLS.Key == "":
		v.Add("tls.key", "the key of the certificate is missing", hint)
	}
}

func (o *Options) validateBounds(v *weir.Mistakes) {
	b := &o.Bounds
	v.Count("bounds.sessions", b.Sessions, maxCount)
	v.Count("bounds.per_source", b.PerSource, maxCount)
	v.Count("bounds.recipients", b.Recipients, maxRecipients)
	v.Count("bounds.received_hops", b.ReceivedHops, 1000)
	v.Count("bounds.errors", b.Errors, maxCount)
	v.Count("bounds.logins", b.Logins, maxCount)
	v.Count("bounds.commands", b.Commands, maxCount)
	v.Size("bounds.message", b.Message, 1<<10, maxMessage)
	v.Size("bounds.header", b.Header, 1<<10, maxHeader)
	v.Size("bounds.line", b.Line, minLine, maxLine)
	for _, t := range []struct {
		path string
		got  weir.Duration
	}{
		{"idle", o.Timeouts.Idle}, {"data", o.Timeouts.Data}, {"login", o.Timeouts.Login},
		{"session", o.Timeouts.Session}, {"wait", o.Timeouts.Wait},
	} {
		v.Seconds("timeouts."+t.path, t.got)
	}
}

// plainHost reports whether a name can be in answers and header fields.
func plainHost(name string) bool {
	return len(name) <= maxHostname && isDomain(name) && name[0] != '[' && shown.ASCII(name)
}

// loopback reports whether only the machine itself can connect to a host to listen on.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && identify.Plain(addr).IsLoopback()
}

// How wide public networks may be. Wider ones are not an operator's own, and many of them would let everybody send.
const (
	widestV4 = 16
	widestV6 = 32
	mostV4   = 1 << 20 // addresses, of all together
	mostV6   = 1 << 34 // networks of 64 bits, of all together: four of the widest
)

// disguised networks are addresses of IPv4 as IPv6: NAT64, mapped ones, 6to4 and Teredo.
var disguised = parsePrefixes("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0/96", "2002::/16", "2001::/32")

// private networks are not reachable from outside. The addresses that providers share among their customers
// (100.64.0.0/10) are not among them.
var private = parsePrefixes("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "::1/128",
	"fc00::/7", "fe80::/10")

func parsePrefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// validateNetworks reports networks that would let strangers send.
func validateNetworks(v *weir.Mistakes, networks []netip.Prefix) {
	const hint = "name your own networks, as narrow as they are"
	var v4, v6 uint64
	for i, p := range networks {
		at := fmt.Sprintf("networks[%d]", i)
		if !p.IsValid() {
			v.Add(at, "not a network", "write 10.0.0.0/8 or 2001:db8::/32")
			continue
		}
		if i := slices.IndexFunc(disguised, p.Overlaps); i >= 0 && p.Bits() >= widestV6 {
			v.Add(at, fmt.Sprintf("%s contains mapped IPv4 addresses, which may be anybody's", p),
				"write your networks as IPv4")
			continue
		}
		if isPrivate(p) {
			continue
		}
		switch {
		case p.Addr().Is4() && p.Bits() < widestV4, p.Addr().Is6() && p.Bits() < widestV6:
			v.Add(at, fmt.Sprintf("%s lets strangers send: an open relay", p), hint)
		case p.Addr().Is4():
			v4 += 1 << (32 - p.Bits())
		default:
			v6 += 1 << (64 - min(p.Bits(), 64))
		}
	}
	if v4 > mostV4 || v6 > mostV6 {
		v.Add("networks", "together the public networks are so many addresses that strangers could send: an open relay",
			hint)
	}
}

func isPrivate(p netip.Prefix) bool {
	return slices.ContainsFunc(private, func(q netip.Prefix) bool {
		return q.Bits() <= p.Bits() && q.Contains(p.Addr())
	})
}
