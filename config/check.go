package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"weir"
	"weir/gate/tcpgate"
	"weir/gate/xdpgate"
	"weir/policy"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// maxSocketPath is how long the path of a Unix socket may be; the address has 108 bytes on Linux, 104 elsewhere.
const maxSocketPath = 103

// weak is said of stamps by dlog-classic.
const weak = "dlog-classic is weak: whoever wants to pays next to nothing"

var throttleName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// Validate returns every mistake in the configuration, as joined weir.FieldErrors.
func (c *Config) Validate() error { return c.validate(true) }

// validate is Validate. Where nothing is to listen, no gate is missing.
func (c *Config) validate(listens bool) error {
	var f findings
	if listens && len(c.HTTP)+len(c.TCP)+len(c.SMTP)+len(c.Postfix)+len(c.Auth)+len(c.RLS)+len(c.XDP) == 0 &&
		c.API == nil {
		f.add("http", "there is no gate: nothing would listen",
			`add http: [{listen: ":8080", upstream: "http://127.0.0.1:3000"}]`)
	}
	f.logs(c.Log)
	for i, g := range c.HTTP {
		f.options(fmt.Sprintf("http[%d]", i), g)
	}
	for i, g := range c.TCP {
		f.options(fmt.Sprintf("tcp[%d]", i), g)
	}
	for i, g := range c.SMTP {
		f.options(fmt.Sprintf("smtp[%d]", i), g)
	}
	for i, g := range c.Postfix {
		f.options(fmt.Sprintf("postfix[%d]", i), g)
	}
	for i, g := range c.Auth {
		f.options(fmt.Sprintf("auth[%d]", i), g)
	}
	for i, g := range c.RLS {
		f.options(fmt.Sprintf("rls[%d]", i), g)
	}
	if c.API != nil {
		f.options("api", *c.API)
	}
	f.options("bans", c.Bans)
	f.interfaces(c.XDP)
	f.options("console", c.Console)
	f.options("self_service", c.SelfService)
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		f.throttle(name, c.Throttles[name])
	}
	f.lists(c)
	f.mailStamps(c)
	f.flaggedLimits(c)
	f.circles(c)
	f.internals(c)
	f.addresses(c)
	if long := len(c.WithDefaults().Control); long > maxSocketPath {
		path := "control"
		if c.Control == "" {
			path = "data"
		}
		f.add(path, fmt.Sprintf("the control socket's path is %d bytes long", long),
			fmt.Sprintf("%d is the longest", maxSocketPath))
	}
	return errors.Join(f.all...)
}

// oddities returns what is allowed but hardly meant.
func (c *Config) oddities() []*weir.FieldError {
	used := map[string]bool{}
	var all []*weir.FieldError
	open := func(kind string, i int, lists ...[]string) {
		if len(slices.Concat(lists...)) == 0 {
			all = append(all, &weir.FieldError{Path: fmt.Sprintf("%s[%d]", kind, i),
				Msg: "the gate has no throttles: everything passes", Hint: "list some: throttles: [name]"})
		}
	}
	for i, g := range c.HTTP {
		open("http", i, g.Accept, g.Throttles)
	}
	for i, g := range c.TCP {
		open("tcp", i, g.Accept, g.Throttles)
	}
	for i, g := range c.SMTP {
		open("smtp", i, g.Accept, g.Throttles, g.PerRecipient)
	}
	for i, g := range c.Postfix {
		open("postfix", i, g.Throttles, g.PerRecipient)
	}
	for i, g := range c.Auth {
		open("auth", i, g.Throttles)
	}
	all = append(all, c.authOddities()...)
	all = append(all, c.accountOddities()...)
	all = append(all, c.mailOddities()...)
	all = append(all, c.openDoors()...)
	for _, u := range c.uses() {
		for _, name := range u.names {
			used[name] = true
		}
	}
	all = append(all, c.stampOddities()...)
	all = append(all, c.proxyOddities()...)
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		if !used[name] {
			all = append(all, &weir.FieldError{Path: "throttles." + name,
				Msg: fmt.Sprintf("no gate lists the throttle %q", name)})
		}
	}
	return all
}

type findings struct{ all []error }

func (f *findings) add(path, msg, hint string) {
	f.all = append(f.all, &weir.FieldError{Path: path, Msg: msg, Hint: hint})
}

// options lets options check themselves.
func (f *findings) options(path string, o interface{ Validate() error }) {
	if err := o.Validate(); err != nil {
		f.all = append(f.all, weir.Under(path, err))
	}
}

// oneOf checks a word that may be left out.
func oneOf[T ~string](f *findings, path string, got T, known ...T) {
	if got == "" || slices.Contains(known, got) {
		return
	}
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	hint := "one of " + strings.Join(words, ", ")
	if close := weir.Nearest(string(got), words...); close != "" {
		hint = fmt.Sprintf("did you mean %q?", close)
	}
	f.add(path, fmt.Sprintf("unknown %s %q", path[strings.LastIndex(path, ".")+1:], string(got)), hint)
}

func (f *findings) logs(l Log) {
	oneOf(f, "log.level", l.Level, LevelDebug, LevelInfo, LevelWarn, LevelError)
	oneOf(f, "log.format", l.Format, FormatAuto, FormatText, FormatJSON)
	oneOf(f, "log.access", l.Access, AccessAll, AccessRefused, AccessOff)
}

func (f *findings) throttle(name string, t Throttle) {
	path := "throttles." + name
	if !throttleName.MatchString(name) {
		f.add(path, fmt.Sprintf("%q is not a name", name), "letters, digits, '-', '_' and '.', at most 64")
	}
	if name == Bans {
		f.add(path,
			fmt.Sprintf("%q is the name of the invalid list, which stands at the head of every list of throttles",
				name),
			"give the throttle another name; bans: beside throttles: configures the list")
	}
	oneOf(f, path+".on_error", t.OnError, policy.Open, policy.Closed)
	var known, given []string
	v := reflect.ValueOf(t)
	for _, m := range fieldsOf(v.Type()) {
		// The mechanisms are the fields that may be absent.
		if m.t.Kind() != reflect.Pointer {
			continue
		}
		known = append(known, m.name)
		if !v.Field(m.index).IsNil() {
			given = append(given, m.name)
			f.options(path+"."+m.name, v.Field(m.index).Interface().(interface{ Validate() error }))
		}
	}
	switch {
	case len(given) == 0:
		f.add(path, fmt.Sprintf("the throttle %q has no mechanism", name), "give it one: "+strings.Join(known, ", "))
	case len(given) > 1:
		f.add(path, fmt.Sprintf("the throttle %q has more than one mechanism: %s", name, strings.Join(given, ", ")),
			"make a throttle of each and list them all in the gate")
	}
}

// A use is a list of throttles somewhere in the configuration.
type use struct {
	path   string
	names  []string
	accept bool // they judge connections, of which nothing but the source is known
	tcp    bool // they judge connections that cannot be asked anything
	mail   bool // they judge mails, which cannot be asked anything either; one of them may be a mail throttle
	each   bool // they judge single recipients of mails
	asked  bool // they judge for those who ask, about anything
}

func (c *Config) uses() (all []use) {
	for i, g := range c.HTTP {
		at := fmt.Sprintf("http[%d]", i)
		all = append(all, use{path: at + ".accept", names: g.Accept, accept: true},
			use{path: at + ".throttles", names: g.Throttles})
	}
	for i, g := range c.TCP {
		at := fmt.Sprintf("tcp[%d]", i)
		all = append(all, use{path: at + ".accept", names: g.Accept, accept: true},
			use{path: at + ".throttles", names: g.Throttles, tcp: true})
	}
	for i, g := range c.SMTP {
		at := fmt.Sprintf("smtp[%d]", i)
		all = append(all, use{path: at + ".accept", names: g.Accept, accept: true},
			use{path: at + ".throttles", names: g.Throttles, mail: true},
			use{path: at + ".per_recipient", names: g.PerRecipient, mail: true, each: true})
	}
	for i, g := range c.Postfix {
		at := fmt.Sprintf("postfix[%d]", i)
		all = append(all, use{path: at + ".throttles", names: g.Throttles, mail: true},
			use{path: at + ".per_recipient", names: g.PerRecipient, mail: true, each: true})
	}
	for i, g := range c.Auth {
		all = append(all, use{path: fmt.Sprintf("auth[%d].throttles", i), names: g.Throttles})
	}
	for i, g := range c.RLS {
		at := fmt.Sprintf("rls[%d]", i)
		for _, name := range slices.Sorted(maps.Keys(g.Domains)) {
			all = append(all, use{path: at + ".domains." + name + ".throttles", names: g.Domains[name].Throttles,
				tcp: true})
		}
		if g.Authz != nil {
			all = append(all, use{path: at + ".authz.throttles", names: g.Authz.Throttles})
		}
	}
	if c.API != nil {
		for _, name := range slices.Sorted(maps.Keys(c.API.Policies)) {
			all = append(all, use{path: "api.policies." + name, names: c.API.Policies[name], asked: true})
		}
	}
	return all
}

// lists checks what gates say about throttles.
func (f *findings) lists(c *Config) {
	names := slices.Sorted(maps.Keys(c.Throttles))
	for _, u := range c.uses() {
		if len(u.names) > policy.MaxListed {
			f.add(u.path, fmt.Sprintf("%d throttles are too many", len(u.names)),
				fmt.Sprintf("at most %d", policy.MaxListed))
		}
		for j, name := range u.names {
			at := fmt.Sprintf("%s[%d]", u.path, j)
			if slices.Contains(u.names[:j], name) {
				f.add(at, fmt.Sprintf("the throttle %q is listed twice", name), "it would count everything twice")
			}
			if name == Bans {
				f.add(at, "the invalid list stands at the head of every list of throttles by itself", "leave it out")
				continue
			}
			if t, known := c.Throttles[name]; known {
				if u.accept && t.Bloom == nil {
					f.add(at,
						fmt.Sprintf("the throttle %q cannot judge connections: nothing is known of them but the source",
							name),
						"list a bloom throttle here, and this one under throttles")
				} else if u.accept && t.Bloom.Count == bloom.Bytes {
					f.add(at, fmt.Sprintf("the throttle %q counts bytes, and a connection has none yet", name),
						"list it under throttles")
				}
				f.payment(c, u, at, name)
				f.mailThrottle(c, u, at, name)
				f.reachThrottle(c, u, at, name)
				continue
			}
			hint := "there are no throttles; add them under throttles"
			if close := weir.Nearest(name, names...); close != "" {
				hint = fmt.Sprintf("did you mean %q?", close)
			} else if len(names) > 0 {
				hint = "there are: " + strings.Join(names[:min(len(names), 10)], ", ")
			}
			f.add(at, fmt.Sprintf("there is no throttle %q", name), hint)
		}
	}
}

// payment checks that whoever is asked for a stamp can pay, and in one place only.
func (f *findings) payment(c *Config, u use, at, name string) {
	t := c.Throttles[name]
	switch asks := asksStamps(t.Quota); {
	case u.accept || t.Stamp == nil && !asks:
	case u.tcp:
		f.add(at, fmt.Sprintf("the throttle %q asks for stamps, and a connection cannot be asked anything", name),
			"list it in an HTTP gate")
	case u.mail:
		f.add(at, fmt.Sprintf("the throttle %q asks for stamps as HTTP clients make them", name),
			"stamps: {} in the gate takes those of mail")
	case asks:
		if !slices.ContainsFunc(u.names, func(other string) bool { return c.Throttles[other].Stamp != nil }) {
			f.add(at, fmt.Sprintf("the throttle %q lets go on for a stamp, and nothing in the list takes any", name),
				"list a throttle with stamp: {…} beside it")
		}
	default:
		for _, other := range u.names[:slices.Index(u.names, name)] {
			if c.Throttles[other].Stamp != nil {
				f.add(at, fmt.Sprintf("%q takes stamps already", other),
					"one throttle of a list asks for stamps, for all of them")
			}
		}
	}
}

// asksStamps reports whether a quota lets go on for a stamp.
func asksStamps(o *quota.Options) bool {
	return o != nil && slices.ContainsFunc(o.Policies, func(p quota.Policy) bool { return p.Over == quota.OverStamp })
}

// addresses finds listeners that would take each other's place.
func (f *findings) addresses(c *Config) {
	type listener struct {
		path, what, address string
		udp                 bool
	}
	var given, all []listener
	for i, g := range c.HTTP {
		if strings.HasPrefix(g.Listen, "unix:") {
			continue
		}
		given = append(given, listener{fmt.Sprintf("http[%d].listen", i), fmt.Sprintf("the gate http[%d]", i), g.Listen,
			false})
	}
	for i, g := range c.TCP {
		given = append(given, listener{fmt.Sprintf("tcp[%d].listen", i), fmt.Sprintf("the gate tcp[%d]", i), g.Listen,
			g.Protocol == tcpgate.UDP})
	}
	for i, g := range c.SMTP {
		given = append(given, listener{fmt.Sprintf("smtp[%d].listen", i), fmt.Sprintf("the gate smtp[%d]", i), g.Listen,
			false})
	}
	for i, g := range c.Postfix {
		if !strings.HasPrefix(g.Listen, "unix:") {
			given = append(given, listener{fmt.Sprintf("postfix[%d].listen", i), fmt.Sprintf("the gate postfix[%d]", i),
				g.Listen, false})
		}
	}
	for i, g := range c.Auth {
		if g = g.WithDefaults(); !strings.HasPrefix(g.Listen, "unix:") {
			given = append(given, listener{fmt.Sprintf("auth[%d].listen", i), fmt.Sprintf("the gate auth[%d]", i),
				g.Listen, false})
		}
	}
	for i, g := range c.RLS {
		if !strings.HasPrefix(g.Listen, "unix:") {
			given = append(given, listener{fmt.Sprintf("rls[%d].listen", i), fmt.Sprintf("the gate rls[%d]", i),
				g.Listen, false})
		}
	}
	if o := c.SelfService.WithDefaults(); o.Enabled() {
		given = append(given, listener{"self_service.listen", "the pages of mail users", o.Listen, false})
	}
	if c.API != nil {
		given = append(given, listener{"api.listen", "the decision API", c.API.Listen, false})
	}
	if o := c.Console.WithDefaults(); o.Enabled() {
		all = append(all, listener{"console.listen", "the console", o.Listen, false})
	}
	for _, new := range given {
		if new.address == "" {
			continue
		}
		for _, old := range all {
			if old.udp != new.udp || !collide(old.address, new.address) {
				continue
			}
			hint := "give each an address of its own"
			if old.path == "console.listen" && c.Console.Listen == "" {
				hint = "that is where it listens unless console.listen says otherwise"
			}
			f.add(new.path, fmt.Sprintf("%s listens on %s already", old.what, old.address), hint)
		}
		all = append(all, new)
	}
}

// interfaces checks the limiters of network interfaces: each interface has one.
func (f *findings) interfaces(all []xdpgate.Options) {
	for i, o := range all {
		at := fmt.Sprintf("xdp[%d]", i)
		f.options(at, o)
		if slices.ContainsFunc(all[:i], func(other xdpgate.Options) bool {
			return other.Interface == o.Interface && o.Interface != ""
		}) {
			f.add(at+".interface", fmt.Sprintf("the packets of %s are limited already", o.Interface),
				"an interface has one limiter")
		}
	}
}

// collide reports whether two listeners cannot both be had. An address that stands for every address of the machine
// collides with each of them.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil {
		return a == b
	}
	if portA != portB || portA == "0" || portA == "" {
		return false
	}
	return everywhere(hostA) || everywhere(hostB) || canonical(hostA) == canonical(hostB)
}

func everywhere(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

func canonical(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().String()
	}
	if host = strings.ToLower(host); host == "localhost" {
		return "127.0.0.1"
	}
	return host
}
