package console

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"weir"
	"weir/console/access"
)

// DefaultListen is where the console listens by default.
const DefaultListen = "127.0.0.1:9000"

// Off as the listen address turns the console off.
const Off = "off"

// Options configure the console: pages for operators, the API, metrics and health.
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
	// TLS for the console. Without it, let operators on other machines come through a proxy that has it, or a tunnel.
	// Default: none.
	TLS *TLS `yaml:"tls"`
	// A proxy in front of the console that operators come through.
	Proxy Proxy `yaml:"proxy"`
	// What everybody who may connect can do without a login: nothing, or look (view). Default: nothing. Health and
	// metrics never need a login.
	WithoutLogin access.Role `yaml:"without_login"`
}

// TLS is the certificate of the console.
type TLS struct {
	// A file with the certificate and its chain, in PEM. It and the key are read again when they change.
	Cert string `yaml:"cert" file:"beside"`
	// The file with its key, in PEM.
	Key string `yaml:"key" file:"beside"`
}

// A Proxy stands in front of the console.
type Proxy struct {
	// Networks that the proxy connects from. Its X-Forwarded-For and X-Forwarded-Proto are trusted, and its header.
	// Everybody in these networks can claim to be any operator, so give addresses of the proxy alone.
	From []netip.Prefix `yaml:"from"`
	// The header in which the proxy names who has logged in, as in X-Forwarded-User. The proxy must remove it from what
	// clients send. Default: none, and operators log in here.
	Header string `yaml:"header"`
	// The role of those named by the header who are not operators here: view, act or admin. Operators have their own
	// role. Default view.
	Role access.Role `yaml:"role"`
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
	if o.Proxy.Header != "" {
		o.Proxy.Role = cmp.Or(o.Proxy.Role, access.View)
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
	networks := func(path string, all []netip.Prefix) {
		for i, p := range all {
			switch {
			case !p.IsValid():
				add(fmt.Sprintf("%s[%d]", path, i), "this is not a network", "write 10.0.0.0/8 or 2001:db8::/32")
			case p != p.Masked():
				add(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("%s has bits beyond its prefix", p),
					fmt.Sprintf("did you mean %s?", p.Masked()))
			}
		}
	}
	networks("allow", o.Allow)
	networks("proxy.from", o.Proxy.From)
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
	if o.TLS != nil && (o.TLS.Cert == "" || o.TLS.Key == "") {
		add("tls", "TLS needs a certificate and its key",
			"write cert: /etc/weir/console.pem and key: /etc/weir/console.key")
	}
	if o.WithoutLogin != access.None && o.WithoutLogin != access.View {
		add("without_login", fmt.Sprintf("%q is not allowed: to act, operators must log in", o.WithoutLogin),
			"write view, or leave it out")
	}
	o.Proxy.validate(add)
	return errors.Join(all...)
}

func (p *Proxy) validate(add func(path, msg, hint string)) {
	if len(p.From) == 0 && (p.Header != "" || p.Role != access.None) {
		add("proxy.from", "the address of the proxy is missing", "write from: [192.0.2.1/32]")
	}
	if p.Header != "" && !httpguts.ValidHeaderFieldName(p.Header) {
		add("proxy.header", fmt.Sprintf("%q is not the name of a header", p.Header), "write X-Forwarded-User")
	}
	for _, taken := range []string{"Cookie", "Authorization", "Host", "X-Forwarded-For", "X-Forwarded-Proto"} {
		if strings.EqualFold(p.Header, taken) {
			add("proxy.header", p.Header+" means something else", "write X-Forwarded-User")
		}
	}
	switch {
	case p.Role == access.None:
	case !p.Role.Valid():
		add("proxy.role", fmt.Sprintf("%q is not a role", p.Role), "write view, act or admin")
	case p.Header == "":
		add("proxy.role", "a role without a header that names somebody", "write header: X-Forwarded-User")
	}
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
