package smtpgate

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"weir"
	"weir/identify"
	"weir/mail/nexthop"
	"weir/mail/spool"
)

// A TLSMode says when a session is encrypted.
type TLSMode string

// The modes.
const (
	TLSNone     TLSMode = "none"     // never
	TLSStart    TLSMode = "starttls" // when the client asks for it, as on port 587
	TLSImplicit TLSMode = "implicit" // from the first byte on, as on port 465
)

// An Auth says who knows the users' passwords.
type Auth string

// Who may know them.
const (
	AuthUsers   Auth = "users"    // weir: see weir user
	AuthNextHop Auth = "next_hop" // the next hop, which is asked
	AuthNone    Auth = "none"     // nobody: there is no AUTH, only networks
)

// A Stopped says what stopped users are told.
type Stopped string

// What they may be told.
const (
	RefuseMail Stopped = "refuse-mail" // AUTH succeeds, recipients are refused
	RefuseAuth Stopped = "refuse-auth" // AUTH fails
)

// Senders says which sender addresses users may write.
type Senders string

// Which they may write.
const (
	SendersAny   Senders = "any"   // any, unless the user has a list
	SendersBound Senders = "bound" // those of the user's list, and none without a list
)

// A Fate is what becomes of a message whose stamps are worth nothing.
type Fate string

// The fates.
const (
	FateRefuse Fate = "refuse" // refused; the client goes on the block list
	FatePool   Fate = "pool"   // as if it had brought none
)

// Doubles says what is doubled.
type Doubles string

// What may be doubled.
const (
	DoubleBits Doubles = "bits" // 16 bits, 32 bits
	DoubleWork Doubles = "work" // 16 bits, 17 bits
)

// Options configure one gate for mail.
type Options struct {
	// The address to listen on: ":587", ":465", "127.0.0.1:2525". Clients must connect to it directly: no proxy in
	// front is trusted.
	Listen string `yaml:"listen"`
	// The name by which the gate introduces itself, and which Received fields and message ids show. Default: the
	// machine's.
	Hostname string `yaml:"hostname"`
	// Encryption. Passwords are only taken inside it, or from the machine itself.
	TLS TLS `yaml:"tls"`
	// The server that messages are handed to.
	NextHop nexthop.Options `yaml:"next_hop"`
	// Who knows the users' passwords: users (weir's own, the default), next_hop (the next hop's AUTH is asked) or none.
	Auth Auth `yaml:"auth"`
	// Which spellings of a name are the same user: your domain, as in example.org, or keep. With a domain, ann, ann+x
	// and ann@example.org are the user ann@example.org, everywhere: here, in throttles, in commands and in calls. With
	// keep, only upper and lower case are the same. All gates have the same one, which stands at one or at all. Needed
	// with auth: next_hop, where the next hop is asked with the name as it was given. Default: keep.
	Realm string `yaml:"realm"`
	// Whether only users that weir knows (see weir user) may log in, with auth: next_hop. Without it, every name that
	// the next hop accepts is a user with its own credit. If the next hop accepts one account under many names, turn
	// this on and add your users.
	KnownOnly bool `yaml:"known_only"`
	// Networks whose clients may send without AUTH: [10.0.0.0/8]. Each address is a user of its own, and of IPv6 each
	// /64. Only your own networks: public ones up to a /16 (IPv6: /32). Default: none.
	Networks []netip.Prefix `yaml:"networks"`
	// Whether clients of these networks are servers that hand on the mail of others: Postfix, with a policy service of
	// this weir and filter. Each message is then charged to the user that the mark of the policy service names; mail
	// without a genuine mark is deferred (451).
	Marks bool `yaml:"marks"`
	// The throttles that judge each connection before anything is read from it, in order.
	Accept []string `yaml:"accept"`
	// The throttles that judge each message when it is complete, in order. One of them may be a mail throttle, which
	// judges it last.
	Throttles []string `yaml:"throttles"`
	// The throttles that judge each recipient, in order. Recipients that are not counted (internal, support, the
	// users themselves) are not judged.
	PerRecipient []string `yaml:"per_recipient"`
	// The address to which users reply with commands about held mail: weir@mail.example.org. Mail to it is taken from
	// everybody, and goes no further. Default: no commands by mail.
	Command string `yaml:"command"`
	// Who is told by mail when a user is stopped. Default: nobody.
	Admin string `yaml:"admin"`
	// The sender of bounces and notices, and the recipient of mail to postmaster without a domain. Default: postmaster
	// at the hostname.
	Postmaster string `yaml:"postmaster"`
	// What stopped users are told: refuse-mail (the default: they may log in, and still reach support, themselves and
	// the command address) or refuse-auth (their AUTH fails).
	Stopped Stopped `yaml:"stopped"`
	// Which sender addresses users may write: any (the default), or bound: only those that the user's entry lists.
	// Where an entry lists some, they bind the user in any case.
	Senders Senders `yaml:"senders"`
	// What happens to a message when the connection broke just as the next hop was taking it: retry (the default; it
	// may arrive twice) or hold (for an operator). It is in the audit log either way.
	Ambiguous spool.Ambiguous `yaml:"ambiguous"`
	// What happens to mail that is held and that nobody releases or deletes.
	Held Holding `yaml:"held"`
	// Stamps, with which a sender pays so that a message does not wait in the delay queue. Default: off.
	Stamps *Stamping `yaml:"stamps"`
	// Bounds on what clients may take of the gate.
	Bounds Bounds `yaml:"bounds"`
	// How long the gate waits for clients, and makes them wait.
	Timeouts Timeouts `yaml:"timeouts"`
}

// TLS is encryption.
type TLS struct {
	// When a session is encrypted: starttls (the client asks for it, port 587; the default where there is a
	// certificate), implicit (from the first byte on, port 465) or none (the default otherwise; only on loopback, or
	// without AUTH).
	Mode TLSMode `yaml:"mode"`
	// The file with the certificate and its chain, in PEM. It is read again at each reload.
	Cert string `yaml:"cert" file:"beside"`
	// The file with its private key, in PEM.
	Key string `yaml:"key" file:"beside"`
}

// Holding is what happens to mail that is held.
type Holding struct {
	// After how long the user is reminded by mail, or the admin where the user has no contact. The time until the next
	// reminder doubles each time, up to 30d. 0s: never. Default 3d, or half of expire if that is less.
	Remind *weir.Duration `yaml:"remind"`
	// After how long it is given up: it is removed, and its sender gets a bounce, as for mail that could not be
	// delivered. The time counts from when the message was accepted. Default: never.
	Expire weir.Duration `yaml:"expire"`
}

// Bounds of Holding: notices are not worth anything if nobody has the time to read them.
const (
	leastRemind = weir.Duration(time.Hour)
	leastExpire = weir.Duration(24 * time.Hour)
)

func (h Holding) withDefaults() Holding {
	if h.Remind == nil {
		remind := weir.Duration(3 * 24 * time.Hour)
		if h.Expire > 0 {
			remind = min(remind, h.Expire/2)
		}
		h.Remind = &remind
	}
	return h
}

func (h Holding) validate(v *weir.Mistakes) {
	switch r := *h.Remind; {
	case r != 0 && r < leastRemind:
		v.Add("held.remind", fmt.Sprintf("%s is too short", r), "at least 1h; 0s for never")
	case r != 0 && h.Expire > 0 && r >= h.Expire:
		v.Add("held.remind", "mail would be given up before anybody is reminded", "write less than expire")
	}
	if h.Expire != 0 && h.Expire < leastExpire {
		v.Add("held.expire", fmt.Sprintf("%s is too short for people to decide", h.Expire), "at least 1d; leave it out for never")
	}
}

// Stamping is how mail may be paid for. The parameters are in the answer to EHLO wherever AUTH is offered.
type Stamping struct {
	// The puzzle: sha256-k (the default), eqs60 or dlog-classic.
	Algorithm string `yaml:"algorithm"`
	// The work that each recipient costs: "20 bits" (the default), or a number of operations. With schedule or
	// double_every, what it costs without load, and the least.
	Work string `yaml:"work"`
	// The load (what there is to deliver, by what can be delivered at once) from which mail without stamps waits in the
	// general pool, and from which the work is doubled, with double_every. Default 90%.
	FromLoad weir.Share `yaml:"from_load"`
	// Work by load, in steps: [{load: 50%, work: 22 bits}, {load: 90%, work: 24 bits}]. The price before a rise is good
	// for 10 more minutes.
	Schedule []Step `yaml:"schedule"`
	// Instead of a schedule: ask for the first work at from_load, and double it after every such interval at whose end
	// the load is still there. The work never takes a phone more than a minute. 0 turns it off.
	// Default: off.
	DoubleEvery weir.Duration `yaml:"double_every" zero:"same"`
	// The work that doubling begins with. Default: work.
	First string `yaml:"first"`
	// What is doubled: bits (the default, as in the document: 16 bits, then 32) or work (16 bits, then 17).
	Doubles Doubles `yaml:"doubles"`
	// What happens to a message with forged or wrongly solved stamps: refuse (the default; and the client goes on the
	// block list, unless somebody else may have written the message) or pool.
	OnInvalid Fate `yaml:"on_invalid"`
	// Whether mail without a stamp for each recipient is refused.
	Required bool `yaml:"required"`
}

// A Step is the work that a recipient costs from a load on.
type Step struct {
	// From this load on.
	Load weir.Share `yaml:"load" zero:"same"`
	// The work: "22 bits", or a number of operations.
	Work string `yaml:"work"`
}

// Bounds keep clients from filling the server up.
type Bounds struct {
	// Open sessions. One more is told so (421) and closed. A tenth of them is kept for your networks, for sessions that
	// have logged in, and for sources from which somebody logged in within a day. When strangers have all others, the
	// source with the most of them loses its newest to one with fewer. Default 1000.
	Sessions int `yaml:"sessions"`
	// Open sessions of one source: an address, or an IPv6 /64. Default 100.
	PerSource int `yaml:"per_source"`
	// Recipients of one message. More are refused with 452, so that the client sends them in another message. A mail
	// throttle may allow fewer. Default 100.
	Recipients int `yaml:"recipients"`
	// The size of a message. Default 50MiB.
	Message weir.Size `yaml:"message"`
	// The size of its header. Default 256KiB.
	Header weir.Size `yaml:"-"`
	// The length of a command, and of a line in a message. Default 2000B.
	Line weir.Size `yaml:"-"`
	// Received fields that a message may bring: with more it is going round in a circle. Default 50.
	ReceivedHops int `yaml:"-"`
	// Answers of a session that say no; then it is closed. What was pipelined behind a refused command does not count.
	// Default 100.
	Errors int `yaml:"-"`
	// Failed logins in a session; then it is closed. Default 5.
	Logins int `yaml:"logins"`
	// Commands of a session; then it is closed. Default 100000.
	Commands int `yaml:"-"`
}

// Timeouts against slow clients.
type Timeouts struct {
	// For the client's next command, or the next piece of a message. Default 5m.
	Idle weir.Duration `yaml:"idle"`
	// For the text of a message as a whole. Default 10m.
	Data weir.Duration `yaml:"data"`
	// Until somebody has logged in, or a client of your networks has sent a message. Default 1m.
	Login weir.Duration `yaml:"-"`
	// For a session as a whole; a message that is coming in is taken to its end. Default 1h.
	Session weir.Duration `yaml:"-"`
	// How long a client may be kept waiting for an answer when a throttle makes a message stand in line; then it is
	// told to come back. Default 30s.
	Wait weir.Duration `yaml:"wait"`
}

// WithDefaults returns the options with everything filled in that was left out, except for the hostname, which the
// machine knows.
func (o Options) WithDefaults() Options {
	mode := TLSNone
	if o.TLS.Cert != "" || o.TLS.Key != "" {
		mode = TLSStart
	}
	o.TLS.Mode = cmp.Or(o.TLS.Mode, mode)
	o.NextHop = o.NextHop.WithDefaults()
	o.Auth = cmp.Or(o.Auth, AuthUsers)
	if o.Auth != AuthNone {
		o.Realm = cmp.Or(o.Realm, identify.KeepRealm)
	}
	o.Stopped = cmp.Or(o.Stopped, RefuseMail)
	o.Senders = cmp.Or(o.Senders, SendersAny)
	o.Ambiguous = cmp.Or(o.Ambiguous, spool.Retry)
	o.Held = o.Held.withDefaults()
	if o.Hostname != "" {
		o.Postmaster = cmp.Or(o.Postmaster, "postmaster@"+o.Hostname)
	}
	if o.Stamps != nil {
		s := *o.Stamps
		s.Algorithm = cmp.Or(s.Algorithm, "sha256-k")
		s.Work = cmp.Or(s.Work, "20 bits")
		s.FromLoad = cmp.Or(s.FromLoad, 0.9)
		s.OnInvalid = cmp.Or(s.OnInvalid, FateRefuse)
		o.Stamps = &s
	}
	b := &o.Bounds
	b.Sessions = cmp.Or(b.Sessions, 1000)
	b.PerSource = cmp.Or(b.PerSource, 100)
	b.Recipients = cmp.Or(b.Recipients, 100)
	b.Message = cmp.Or(b.Message, 50<<20)
	b.Header = cmp.Or(b.Header, 256<<10)
	b.Line = cmp.Or(b.Line, 2000)
	b.ReceivedHops = cmp.Or(b.ReceivedHops, 50)
	b.Errors = cmp.Or(b.Errors, 100)
	b.Logins = cmp.Or(b.Logins, 5)
	b.Commands = cmp.Or(b.Commands, 100_000)
	t := &o.Timeouts
	t.Idle = cmp.Or(t.Idle, weir.Duration(5*time.Minute))
	t.Data = cmp.Or(t.Data, weir.Duration(10*time.Minute))
	t.Login = cmp.Or(t.Login, weir.Duration(time.Minute))
	t.Session = cmp.Or(t.Session, weir.Duration(time.Hour))
	t.Wait = cmp.Or(t.Wait, weir.Duration(30*time.Second))
	return o
}

// encrypted reports whether sessions are, or may be.
func (o *Options) encrypted() bool { return o.TLS.Mode == TLSStart || o.TLS.Mode == TLSImplicit }
