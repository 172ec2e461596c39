package nexthop

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir"
)

// Bounds on what an operator may write.
const (
	MaxServers     = 16
	MaxConnections = 1000
	MaxReuse       = 1_000_000
	MaxRecipients  = 1000
	maxTime        = time.Hour
)

// A TLS says whether connections are encrypted by STARTTLS.
type TLS string

// The values of TLS.
const (
	TLSOpportunistic TLS = "opportunistic"
	TLSRequire       TLS = "require"
	TLSOff           TLS = "off"
)

// Options configure where mail goes.
type Options struct {
	// The servers that take the mail; the first that can be reached gets it: 127.0.0.1:25, smtp://mx.example.org:25,
	// smtps://mx.example.org:465 (TLS from the start), lmtp://127.0.0.1:24, or a socket of this machine,
	// unix:/run/smtp.sock or lmtp:unix:/run/lmtp.sock.
	Servers []string `yaml:"servers"`
	// Whether a connection is encrypted by STARTTLS: opportunistic (where the server offers it; the default), require
	// (the default where a password is given), or off (the default for this machine). smtps is always encrypted, a
	// socket of this machine never.
	TLS TLS `yaml:"tls"`
	// Whether the server's certificate must be valid for its name. Default true; false with opportunistic and without a
	// password, because an attacker in between could hide the offer of TLS anyway.
	Verify *bool `yaml:"verify"`
	// A file with the authorities, in PEM, that may sign the certificate of a server. Default: those of the system.
	CA string `yaml:"ca" file:"beside"`
	// The name to log in with, by AUTH PLAIN or LOGIN. Default: no login.
	User string `yaml:"user"`
	// The password to log in with. It is sent over TLS only, or to this machine. Write ${file:/path} or ${env:NAME}.
	Password string `yaml:"password"`
	// The name by which weir greets the servers. Default: the name of this machine.
	Hello string `yaml:"hello"`
	// How many connections there are at once. Default 20.
	Connections int `yaml:"connections"`
	// How many messages go over a connection before it is closed. Default 100.
	Reuse int `yaml:"-"`
	// How long a connection is kept open for the next message. Default 30s.
	Idle weir.Duration `yaml:"-"`
	// How many recipients a message may have; one with more is sent several times. Default 100.
	Recipients int `yaml:"recipients"`
	// How long servers are waited for.
	Timeouts Timeouts `yaml:"-"`
}

// Short is the key that may stand for all of them: next_hop: 127.0.0.1:25.
func (o Options) Short() string { return "servers" }

// Timeouts for slow servers (RFC 5321 section 4.5.3.2).
type Timeouts struct {
	// For a connection, and for its TLS handshake. Default 30s.
	Connect weir.Duration `yaml:"connect"`
	// For the answer to a command, and for the server to take each part of the text. Default 5m.
	Command weir.Duration `yaml:"command"`
	// For the answer after the end of the text. Shorter is not safer: what is not answered may be delivered twice.
	// Default 10m.
	Data weir.Duration `yaml:"data"`
}

// WithDefaults fills in what was left out, except for what depends on the server (tls, verify) or on the machine
// (hello).
func (o Options) WithDefaults() Options {
	o.Connections = cmp.Or(o.Connections, 20)
	o.Reuse = cmp.Or(o.Reuse, 100)
	o.Idle = cmp.Or(o.Idle, weir.Duration(30*time.Second))
	o.Recipients = cmp.Or(o.Recipients, 100)
	o.Timeouts.Connect = cmp.Or(o.Timeouts.Connect, weir.Duration(30*time.Second))
	o.Timeouts.Command = cmp.Or(o.Timeouts.Command, weir.Duration(5*time.Minute))
	o.Timeouts.Data = cmp.Or(o.Timeouts.Data, weir.Duration(10*time.Minute))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. It does not connect to the servers.
func (o Options) Validate() error {
	var v weir.Mistakes
	targets := o.validateServers(&v)
	v.OneOf("tls", string(o.TLS), string(TLSOpportunistic), string(TLSRequire), string(TLSOff))
	if o.CA != "" && o.Verify != nil && !*o.Verify {
		v.Add("ca", "certificates are not verified", "leave out verify: false")
	}
	o.validateLogin(targets, &v)
	if o.Hello != "" && !isHostName(o.Hello) {
		v.Add("hello", fmt.Sprintf("%.100q is not the name of a host", o.Hello), "write mail.example.org")
	}
	v.Count("connections", o.Connections, MaxConnections)
	v.Count("reuse", o.Reuse, MaxReuse)
	v.Count("recipients", o.Recipients, MaxRecipients)
	v.Lasts("idle", o.Idle, time.Second, maxTime)
	v.Lasts("timeouts.connect", o.Timeouts.Connect, time.Second, maxTime)
	v.Lasts("timeouts.command", o.Timeouts.Command, time.Second, maxTime)
	v.Lasts("timeouts.data", o.Timeouts.Data, time.Second, maxTime)
	return v.Err()
}

func (o *Options) validateServers(v *weir.Mistakes) []target {
	if len(o.Servers) == 0 {
		v.Add("servers", "there is no server to hand mail to", `write servers: ["127.0.0.1:25"]`)
	}
	if !v.AtMost("servers", "servers", len(o.Servers), MaxServers) {
		return nil
	}
	var targets []target
	for i, text := range o.Servers {
		path := fmt.Sprintf("servers[%d]", i)
		to, err := parseTarget(text)
		if err != nil {
			v.Under(path, err)
			continue
		}
		if slices.ContainsFunc(targets, func(other target) bool { return other.address == to.address }) {
			v.Add(path, fmt.Sprintf("%s is there already", to.address), "leave it out")
		}
		targets = append(targets, to)
	}
	return targets
}

func (o *Options) validateLogin(targets []target, v *weir.Mistakes) {
	switch {
	case o.User == "" && o.Password != "":
		v.Add("user", "there is a password, but no user", "give user, too")
	case o.User != "" && o.Password == "":
		v.Add("password", "the password is missing", "write ${file:/path} or ${env:NAME}")
	}
	for _, given := range [...][2]string{{"user", o.User}, {"password", o.Password}} {
		if strings.ContainsFunc(given[1], func(r rune) bool { return r < ' ' || r == 0x7f }) {
			v.Add(given[0], "there is a character in it that cannot be typed",
				"is there more than one line in the file?")
		}
	}
	if o.User == "" || o.TLS != TLSOff {
		return
	}
	for i, to := range targets {
		if !to.local && !to.implicit {
			v.Add("tls", fmt.Sprintf("the password would be sent to servers[%d] unencrypted", i),
				"write tls: require")
		}
	}
}

func (o *Options) tlsFor(to target) TLS {
	switch {
	case to.network == "unix" || to.implicit:
		return TLSOff
	case o.TLS != "":
		return o.TLS
	case to.local:
		return TLSOff
	case o.User != "":
		return TLSRequire
	}
	return TLSOpportunistic
}

func (o *Options) verifies(mode TLS) bool {
	if o.Verify != nil {
		return *o.Verify
	}
	return mode != TLSOpportunistic || o.User != ""
}

// isHostName reports whether a name can be used in EHLO: a domain, or an address in brackets.
func isHostName(name string) bool {
	return len(name) <= 255 && name != "" &&
		strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-._[]:") == ""
}

// A target is a server as an operator writes it.
type target struct {
	network, address string // as net.Dial wants them
	host             string // that a certificate must name
	lmtp             bool
	implicit         bool // TLS from the start
	local            bool // on this machine, so that nobody can listen in
}

const targetHint = `write "127.0.0.1:25", "smtps://mx.example.org:465", "lmtp://127.0.0.1:24" or "lmtp:unix:/run/lmtp.sock"`

func parseTarget(text string) (target, error) {
	to := target{network: "tcp"}
	rest, port := text, ""
	if path, found := strings.CutPrefix(strings.TrimPrefix(text, "lmtp:"), "unix:"); found {
		if !strings.HasPrefix(path, "/") {
			return to, &weir.FieldError{Msg: fmt.Sprintf("%.100q does not name a socket", text),
				Hint: "write lmtp:unix:/run/lmtp.sock"}
		}
		return target{network: "unix", address: path, lmtp: strings.HasPrefix(text, "lmtp:"), local: true}, nil
	}
	if scheme, tail, found := strings.Cut(text, "://"); found {
		switch scheme {
		case "smtp":
			port = "25"
		case "smtps":
			port, to.implicit = "465", true
		case "lmtp":
			port, to.lmtp = "24", true
		default:
			hint := targetHint
			if near := weir.Nearest(scheme, "smtp", "smtps", "lmtp"); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return to, &weir.FieldError{Msg: fmt.Sprintf("unknown protocol %.100q", scheme), Hint: hint}
		}
		rest = strings.TrimSuffix(tail, "/")
	}
	host, given, err := net.SplitHostPort(rest)
	if err != nil && port != "" {
		host, given, err = net.SplitHostPort(rest + ":" + port)
	}
	n, notPort := strconv.ParseUint(given, 10, 16)
	if err != nil || notPort != nil || n == 0 || !isHost(host) {
		return to, &weir.FieldError{Msg: fmt.Sprintf("%.100q is not a host with a port", text), Hint: targetHint}
	}
	addr, err := netip.ParseAddr(host)
	to.host, to.address = host, net.JoinHostPort(host, given)
	to.local = host == "localhost" || err == nil && addr.Unmap().IsLoopback()
	return to, nil
}

func isHost(host string) bool {
	if weir.CheckHost(host) != nil {
		return false
	}
	return strings.Contains(host, ":") || isHostName(host) && !strings.ContainsAny(host, "[]")
}
