package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"weir"
	"weir/gate"
	"weir/gate/xdpgate"
	"weir/policy"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// maxSocketPath is how long the path of a Unix socket may be; the address has 108 bytes on Linux, 104 elsewhere.
const maxSocketPath = 103

// weak is said of stamps by dlog-classic.
const weak = "dlog-classic is weak: an attacker pays next to nothing"

var throttleName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// Validate returns every mistake in the configuration, as joined weir.FieldErrors.
func (c *Config) Validate() error { return c.validate(true) }

// validate is Validate. Where nothing is to listen, no gate is missing. Nor is one where the console is asked for by
// itself, as in the file that a package installs.
func (c *Config) validate(listens bool) error {
	var f findings
	gates := len(c.XDP)
	for path, o := range c.Gates() {
		gates++
		f.options(path, o)
	}
	if listens && gates == 0 && c.Console.Listen == "" {
		f.add("http", "there is no gate: nothing would listen",
			`add http: [{listen: ":8080", upstream: "http://127.0.0.1:3000"}]`)
	}
	f.logs(c.Log)
	f.options("bans", c.Bans)
	f.autoBans(c)
	f.interfaces(c.XDP)
	f.options("console", c.Console)
	f.options("self_service", c.SelfService)
	f.options("notify", c.Notify)
	f.options("traces", c.Traces)
	if c.Farm != nil {
		f.options("farm", *c.Farm)
	}
	f.counters(c)
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		f.throttle(name, c.Throttles[name])
	}
	f.lists(c)
	f.keys(c)
	f.tokens(c)
	f.mailStamps(c)
	f.oneRealm(c)
	f.flaggedLimits(c)
	f.circles(c)
	f.loops(c)
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

// warnings returns what is allowed but hardly meant.
func (c *Config) warnings() []*weir.FieldError {
	used := map[string]bool{}
	var all []*weir.FieldError
	gates := len(c.XDP)
	for path, o := range c.Gates() {
		gates++
		// Lists below another key are for gates that may have rules of another kind beside them.
		listed := func(l gate.List) bool {
			return len(l.Names) > 0 || strings.Contains(l.Key, ".") && !l.Apart
		}
		if lists := o.Facts().Lists; len(lists) > 0 && !slices.ContainsFunc(lists, listed) {
			all = append(all, &weir.FieldError{Path: path, Msg: "the gate has no throttles: everything passes",
				Hint: "list some: throttles: [name]"})
		}
	}
	if gates == 0 && c.Console.Listen != "" {
		all = append(all, &weir.FieldError{Path: "console", Msg: "there is no gate: nothing but the console listens",
			Hint: `add http: [{listen: ":8080", upstream: "http://127.0.0.1:3000"}]`})
	}
	all = append(all, c.authWarnings()...)
	all = append(all, c.accountWarnings()...)
	all = append(all, c.mailWarnings()...)
	all = append(all, c.openDoors()...)
	for _, u := range c.uses() {
		for _, name := range u.Names {
			used[name] = true
		}
	}
	all = append(all, c.keyWarnings()...)
	all = append(all, c.burstWarnings()...)
	all = append(all, c.costWarnings()...)
	all = append(all, c.stampWarnings()...)
	all = append(all, c.routeWarnings()...)
	all = append(all, c.proxyWarnings()...)
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
	oneOf(f, "log.recipients", l.Recipients, RecipientsAddress, RecipientsDomain)
	f.options("log.access", l.Access)
}

// autoBans looks at the throttles whose refusals lead to bans.
func (f *findings) autoBans(c *Config) {
	if c.Bans.Auto == nil {
		return
	}
	for i, name := range c.Bans.Auto.Throttles {
		path := fmt.Sprintf("bans.auto.throttles[%d]", i)
		t, known := c.Throttles[name]
		switch {
		case !known:
			f.add(path, fmt.Sprintf("there is no throttle %q", name),
				weir.Suggest(name, slices.Sorted(maps.Keys(c.Throttles))...))
		case t.Bloom == nil && t.Quota == nil:
			f.add(path, fmt.Sprintf("%q is neither a bloom nor a quota: nobody is over a limit there", name), "")
		}
	}
}

func (f *findings) throttle(name string, t Throttle) {
	path := "throttles." + name
	if !throttleName.MatchString(name) {
		f.add(path, fmt.Sprintf("%q is not a name", name), "letters, digits, '-', '_' and '.', at most 64")
	}
	if name == Bans {
		f.add(path,
			fmt.Sprintf("%q is the name of the block list, which is first in every list of throttles",
				name),
			"give the throttle another name; bans: beside throttles: configures the list")
	}
	oneOf(f, path+".on_error", t.OnError, policy.Open, policy.Closed)
	var known, given []string
	for key, o := range t.mechanisms() {
		known = append(known, key)
		if o != nil {
			given = append(given, key)
			f.options(path+"."+key, o)
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
	gate.List
	path string
}

func (c *Config) uses() (all []use) {
	for path, o := range c.Gates() {
		for _, l := range o.Facts().Lists {
			all = append(all, use{l, path + "." + l.Key})
		}
	}
	return all
}

// lists checks what gates say about throttles.
func (f *findings) lists(c *Config) {
	names := slices.Sorted(maps.Keys(c.Throttles))
	for _, u := range c.uses() {
		if len(u.Names) > policy.MaxListed {
			f.add(u.path, fmt.Sprintf("%d throttles are too many", len(u.Names)),
				fmt.Sprintf("at most %d", policy.MaxListed))
		}
		for j, name := range u.Names {
			at := fmt.Sprintf("%s[%d]", u.path, j)
			if slices.Contains(u.Names[:j], name) {
				f.add(at, fmt.Sprintf("the throttle %q is listed twice", name), "it would count everything twice")
			}
			if name == Bans {
				f.add(at, "the block list is already first in every list of throttles", "leave it out")
				continue
			}
			if t, known := c.Throttles[name]; known {
				if u.Judges == gate.Arrivals && t.Bloom == nil {
					f.add(at,
						fmt.Sprintf("the throttle %q cannot judge connections: only their source is known",
							name),
						"list a bloom throttle here, and this one under throttles")
				} else if u.Judges == gate.Arrivals && t.Bloom.Count == bloom.Bytes {
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

// payment checks that clients can pay where a list asks for stamps, and that only one throttle of the list asks.
func (f *findings) payment(c *Config, u use, at, name string) {
	t := c.Throttles[name]
	switch asks := asksStamps(t.Quota); {
	case u.Judges == gate.Arrivals || t.Stamp == nil && !asks:
	case u.Judges == gate.Connections:
		f.add(at, fmt.Sprintf("the throttle %q asks for stamps, and a connection cannot pay", name),
			"list it in an HTTP gate")
	case u.Judges.OfMail():
		f.add(at, fmt.Sprintf("the throttle %q asks for stamps as HTTP clients make them", name),
			"stamps: {} in the gate takes those of mail")
	case asks:
		if !slices.ContainsFunc(u.Names, func(other string) bool { return c.Throttles[other].Stamp != nil }) {
			f.add(at, fmt.Sprintf("the throttle %q has over: stamp, and no throttle in the list takes stamps", name),
				"list a throttle with stamp: {…} beside it")
		}
	default:
		for _, other := range u.Names[:slices.Index(u.Names, name)] {
			if c.Throttles[other].Stamp != nil {
				f.add(at, fmt.Sprintf("%q takes stamps already", other),
					"one throttle of a list asks for stamps, for all of them")
			}
		}
	}
}

// asksStamps reports whether a quota lets clients pay with a stamp when it is used up.
func asksStamps(o *quota.Options) bool {
	return o != nil && slices.ContainsFunc(o.Policies, func(p quota.Policy) bool { return p.Over == quota.OverStamp })
}

// addresses finds listeners that want the same address.
func (f *findings) addresses(c *Config) {
	type listener struct {
		path, what, address string
		udp                 bool
	}
	var given, all []listener
	for path, o := range c.Gates() {
		if g := o.Facts(); !strings.HasPrefix(g.Listen, "unix:") {
			given = append(given, listener{path + ".listen", "the gate " + path, g.Listen, g.UDP})
		}
	}
	if o := c.SelfService.WithDefaults(); o.Enabled() {
		given = append(given, listener{"self_service.listen", "the pages of mail users", o.Listen, false})
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

// collide reports whether two listeners exclude each other. The unspecified address collides with every address of its
// port.
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
