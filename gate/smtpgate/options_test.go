package smtpgate

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/mail/nexthop"
	"weir/mail/spool"
)

func good() Options {
	return Options{Listen: "127.0.0.1:2525", NextHop: nexthop.Options{Servers: []string{"127.0.0.1:25"}}}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	o := good()
	o.Hostname = "mail.example.org"
	o.Stamps = &Stamping{}
	d := o.WithDefaults()
	bounds := Bounds{Sessions: 1000, PerSource: 100, Recipients: 100, Message: 50 << 20, Header: 256 << 10, Line: 2000,
		ReceivedHops: 50, Errors: 100, Logins: 5, Commands: 100_000}
	timeouts := Timeouts{Idle: weir.Duration(5 * time.Minute), Data: weir.Duration(10 * time.Minute),
		Login: weir.Duration(time.Minute), Session: weir.Duration(time.Hour), Wait: weir.Duration(30 * time.Second)}
	if d.Bounds != bounds || d.Timeouts != timeouts || d.TLS.Mode != TLSNone || d.Auth != AuthUsers ||
		d.Stopped != RefuseMail || d.Senders != SendersAny ||
		d.Ambiguous != spool.Retry || *d.Held.Remind != weir.Duration(72*time.Hour) ||
		d.Held.Expire != 0 || d.Postmaster != "postmaster@mail.example.org" ||
		!reflect.DeepEqual(*d.Stamps, Stamping{Algorithm: "sha256-k", Work: "20 bits", FromLoad: 0.9,
			OnInvalid: FateRefuse}) {
		t.Errorf("%+v %+v", d, d.Stamps)
	}
	if !reflect.DeepEqual(*o.Stamps, Stamping{}) {
		t.Error("what was given has changed")
	}
	o.TLS.Cert = "x"
	if o.WithDefaults().TLS.Mode != TLSStart {
		t.Error("a certificate is not used")
	}
	for _, o := range []Options{good(), good().WithDefaults(), d} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// TestValidate: every mistake is found at once, with a hint.
func TestValidate(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"":         func(o *Options) {},
		"listen":   func(o *Options) { o.Listen = "" },
		"next_hop": func(o *Options) { o.NextHop = nexthop.Options{} },
		"hostname": func(o *Options) { o.Hostname = "a b" },
		"held.remind": func(o *Options) {
			short := leastRemind - 1
			o.Held.Remind = &short
		},
		"held.expire": func(o *Options) { o.Held.Expire = leastExpire - 1 },
		"tls.cert":    func(o *Options) { o.TLS.Mode = TLSImplicit },
		"tls.key":     func(o *Options) { o.TLS.Cert = "x" },
		"tls.mode":    func(o *Options) { o.TLS.Mode = "startls" },
		"auth":        func(o *Options) { o.Auth = AuthNone },
		"tls":         func(o *Options) { o.Listen = ":587" },
		"command":     func(o *Options) { o.Command = "weir+x@example.org" },
		"command ":    func(o *Options) { o.Command = "Postmaster@mail.example.org" },
		"command  ": func(o *Options) {
			o.Command, o.Admin = "weir@mail.example.org",
				"Weir+x@mail.example.org"
		},
		"command   ": func(o *Options) {
			o.Command, o.Postmaster = "weir@mail.example.org",
				"weir@mail.example.org"
		},
		"hostname ":  func(o *Options) { o.Hostname = ".." },
		"hostname  ": func(o *Options) { o.Hostname = "[127.0.0.1]" },
		"known_only": func(o *Options) { o.Realm, o.KnownOnly = "example.org", true },
		"realm":      func(o *Options) { o.Auth, o.Realm = AuthNextHop, "example..org" },
		"timeouts.idle timeouts.login": func(o *Options) {
			o.Timeouts.Idle, o.Timeouts.Login = weir.Duration(time.Second-1), 1
			o.Timeouts.Data = weir.Duration(time.Second)
		},
		"admin postmaster": func(o *Options) { o.Admin, o.Postmaster = "admin", "a b@c@d" },
		"stopped senders ambiguous stamps.on_invalid stamps.from_load": func(o *Options) {
			o.Stopped, o.Senders, o.Ambiguous, o.Stamps = "x", "x", "x", &Stamping{OnInvalid: "x", FromLoad: -1}
		},
		"bounds.sessions bounds.per_source bounds.recipients bounds.received_hops bounds.errors bounds.logins " +
			"bounds.commands bounds.message bounds.header bounds.line timeouts.idle timeouts.data timeouts.login " +
			"timeouts.session timeouts.wait": func(o *Options) {
			o.Bounds = Bounds{-1, -1, maxRecipients + 1, maxMessage + 1, maxHeader + 1, minLine - 1, -1, -1, -1, -1}
			o.Timeouts = Timeouts{-1, -1, -1, -1, -1}
		},
	} {
		o := good()
		change(&o)
		var paths []string
		for _, fe := range weir.FieldErrors(o.Validate()) {
			path := fe.Path
			if strings.HasPrefix(path, "next_hop") {
				path = "next_hop"
			}
			paths = append(paths, path)
			if fe.Msg == "" || fe.Hint == "" {
				t.Errorf("%v has no hint", fe)
			}
		}
		if got := strings.Join(paths, " "); got != strings.TrimRight(want, " ") {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

// TestNoOpenRelay: no options that pass let strangers send, or passwords cross the network in clear text.
func TestNoOpenRelay(t *testing.T) {
	t.Parallel()
	open := func(o *Options) { o.Listen, o.TLS = "0.0.0.0:25", TLS{Mode: TLSStart, Cert: "c", Key: "k"} }
	networks := func(list ...string) func(*Options) {
		return func(o *Options) {
			open(o)
			for _, p := range list {
				o.Networks = append(o.Networks, netip.MustParsePrefix(p))
			}
		}
	}
	pieces := func(bits, n int) func(*Options) {
		return func(o *Options) {
			open(o)
			for i := range n {
				addr := netip.AddrFrom4([4]byte{byte(20 + i), 1, 0, 0})
				o.Networks = append(o.Networks, netip.PrefixFrom(addr, bits))
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*Options)
		ok     bool
	}{
		"private": {networks("10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "127.0.0.0/8",
			"fc00::/7", "::1/128", "fe80::/10"), true},
		"shared by customers":    {networks("100.64.0.0/10"), false},
		"a few shared addresses": {networks("100.64.7.0/24"), true},
		"IPv4 through NAT64":     {networks("64:ff9b::/96"), false},
		"… a part of it":         {networks("64:ff9b::a00:0/104"), false},
		"… and more":             {networks("64:ff9b::/32"), false},
		"… in another place":     {networks("64:ff9b:1::/48"), false},
		"IPv4 by 6to4":           {networks("2002::/16"), false},
		"… of a part of it":      {networks("2002:a00::/24"), false},
		"… one site":             {networks("2002:c000:204::/48"), false},
		"Teredo":                 {networks("2001::/32"), false},
		"a machine by Teredo":    {networks("2001:0:53aa:64c::1/128"), false},
		"a mapped machine":       {networks("::ffff:10.0.0.1/128"), false},
		"a /16":                  {networks("203.0.0.0/16"), true},
		"a /15":                  {networks("203.0.0.0/15"), false},
		"everybody":              {networks("0.0.0.0/0"), false},
		"halves":                 {networks("0.0.0.0/1", "128.0.0.0/1"), false},
		"everybody in IPv6":      {networks("::/0"), false},
		"IPv4 in disguise":       {networks("::ffff:0.0.0.0/96"), false},
		"more than private":      {networks("10.0.0.0/7"), false},
		"a /32 of IPv6":          {networks("2001:db8::/32"), true},
		"a /31 of IPv6":          {networks("2001:db8::/31"), false},
		"sixteen /16":            {pieces(16, 16), true},
		"seventeen /16":          {pieces(16, 17), false},
		"no AUTH, no networks":   {func(o *Options) { open(o); o.Auth = AuthNone }, false},
		"AUTH in clear text":     {func(o *Options) { o.Listen = "192.0.2.1:587" }, false},
		"… from everywhere":      {func(o *Options) { o.Listen = ":587" }, false},
		"… with networks": {func(o *Options) { o.Listen, o.Networks = ":587", prefixes("10.0.0.0/8") },
			false},
		"clear text without AUTH": {func(o *Options) {
			o.Listen, o.Auth, o.Networks = ":25", AuthNone,
				prefixes("10.0.0.0/8")
		}, true},
		"clear text at home":         {func(o *Options) { o.Listen = "[::1]:587" }, true},
		"clear text at home, mapped": {func(o *Options) { o.Listen = "[::ffff:127.0.0.1]:587" }, true},
		"by name":                    {func(o *Options) { o.Listen = "localhost:587" }, true},
		"by another name":            {func(o *Options) { o.Listen = "localhost.example.org:587" }, false},
	} {
		o := good()
		c.change(&o)
		if err := o.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestParts: a gate without what it needs is none.
func TestParts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for name, try := range map[string]func() error{
		"no spool":  func() error { _, err := New(good(), Parts{}, Env{Name: "x"}); return err },
		"no name":   func() error { _, err := New(good(), Parts{}, Env{Spool: r.spool}); return err },
		"no logins": func() error { _, err := New(good(), Parts{}, Env{Name: "x", Spool: r.spool}); return err },
		"no relay": func() error {
			o := good()
			o.Auth = AuthNextHop
			_, err := New(o, Parts{}, Env{Name: "x", Spool: r.spool})
			return err
		},
		"no options": func() error { _, err := New(Options{}, Parts{}, r.env); return err },
		"again":      func() error { return r.Listen() },
		"taken": func() error {
			o := good()
			o.Listen = r.Addr().String()
			g, err := New(o, Parts{}, r.env)
			if err != nil {
				t.Fatal(err)
			}
			return g.Listen()
		},
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestHeldBounds: the least that is allowed, and a reminder that would come too late.
func TestHeldBounds(t *testing.T) {
	t.Parallel()
	duration := func(d weir.Duration) *weir.Duration { return &d }
	for _, c := range []struct {
		held Holding
		want string
	}{
		{Holding{}, ""},
		{Holding{Remind: duration(0)}, ""},
		{Holding{Remind: duration(leastRemind), Expire: leastExpire}, ""},
		{Holding{Expire: leastExpire}, ""}, // the reminder comes after twelve hours
		{Holding{Remind: duration(-1)}, "held.remind"},
		{Holding{Expire: -1}, "held.expire"},
		{Holding{Remind: duration(leastExpire), Expire: leastExpire}, "before anybody is reminded"},
	} {
		o := good()
		o.Held = c.held
		err := o.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.held, err, c.want)
		}
	}
	if r := *(Holding{Expire: leastExpire}.withDefaults().Remind); r != leastExpire/2 {
		t.Errorf("the default is %s", r)
	}
}
