package console

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"weir"
)

// DefaultListen is where the console listens by default.
const DefaultListen = "127.0.0.1:9000"

// Off as the listen address turns the console off.
const Off = "off"

// Options configure the console: metrics and health.
type Options struct {
	// The address to listen on, or "off". Default 127.0.0.1:9000.
	Listen string `yaml:"listen"`
	// Networks that may connect. Must be given when listen is not a loopback address. Default: this machine only.
	Allow []netip.Prefix `yaml:"allow"`
	// Names by which the console is asked for, besides addresses and localhost: the name under which Prometheus knows
	// it. A request for any other name is refused, so that a web page in an operator's browser cannot read the console.
	Hosts []string `yaml:"hosts"`
	// The password for profiles of Go's runtime below /debug/pprof/, for go tool pprof, of at least 16 characters. Take
	// it from a file or the environment: ${file:/etc/weir/profiles}. Only this machine can ask for profiles, also
	// where others may connect. Default: profiles are off.
	ProfilesPassword string `yaml:"profiles_password"`
}

// loopback may connect by default.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// WithDefaults returns the options with the defaults filled in.
func (o Options) WithDefaults() Options {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if len(o.Allow) == 0 {
		o.Allow = loopback
	}
	return o
}

// Enabled reports whether there is a console.
func (o Options) Enabled() bool { return o.Listen != Off }

// Validate returns every error in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var all []error
	add := func(path, msg, hint string) {
		all = append(all, &weir.FieldError{Path: path, Msg: msg, Hint: hint})
	}
	if o.Listen != "" && o.Listen != Off {
		local, err := checkListen(o.Listen)
		switch {
		case err != nil:
			add("listen", fmt.Sprintf("%q is not an address: %s", o.Listen, err), "write 127.0.0.1:9000, or off")
		case !local && len(o.Allow) == 0:
			add("listen", fmt.Sprintf("%s can be reached from outside this machine", o.Listen),
				"say who may connect, as in allow: [10.0.0.0/8], or listen on 127.0.0.1:9000")
		}
	}
	for i, p := range o.Allow {
		switch {
		case !p.IsValid():
			add(fmt.Sprintf("allow[%d]", i), "this is no network", "write 10.0.0.0/8 or 2001:db8::/32")
		case p != p.Masked():
			add(fmt.Sprintf("allow[%d]", i), fmt.Sprintf("%s has bits beyond its prefix", p),
				fmt.Sprintf("did you mean %s?", p.Masked()))
		}
	}
	for i, h := range o.Hosts {
		if h == "" || h != strings.ToLower(h) || strings.ContainsAny(h, "/:*@ ") {
			add(fmt.Sprintf("hosts[%d]", i), fmt.Sprintf("%q is not a host", h),
				"write the name alone, in small letters: weir.example.com")
		}
	}
	if n := len(o.ProfilesPassword); n > 0 && n < minProfilesPassword || n > maxProfilesPassword {
		add("profiles_password", fmt.Sprintf("the password has %d characters", n),
			fmt.Sprintf("%d to %d, as openssl rand -hex 16 makes them", minProfilesPassword, maxProfilesPassword))
	}
	return errors.Join(all...)
}

// checkListen reports whether an address to listen on can only be reached from this machine.
func checkListen(listen string) (local bool, err error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		if ae, ok := errors.AsType[*net.AddrError](err); ok {
			return false, errors.New(ae.Err)
		}
		return false, err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, fmt.Errorf("%q is not a port", port)
	}
	if host == "" {
		return false, nil
	}
	if host == "localhost" {
		return true, nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false, fmt.Errorf("%q is not an IP address", host)
	}
	return addr.IsLoopback(), nil
}
