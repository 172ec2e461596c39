package httpgate

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"weir"
	"weir/gate"
	"weir/identify"
)

// A Socket is a file, and has an owner and a mode like any other.
type Socket struct {
	// Who may use it, in octal digits. Default 0660: the owner and the group.
	Mode string `yaml:"mode"`
	// Default: the user that weir runs as. Only root can name another.
	Owner string `yaml:"owner"`
	// Default: the group that weir runs as. Write the group of the proxy in front, and let weir's user be in it.
	Group string `yaml:"group"`
	// Whether those who use it are proxies whose forwarding header is believed, like that of trusted_proxies. Otherwise
	// nobody on the socket has a source. Default false.
	Trusted bool `yaml:"trusted"`
}

func (s *Socket) rights() gate.Socket {
	return gate.Socket{Mode: s.Mode, Owner: s.Owner, Group: s.Group}
}

// validateListen finds mistakes in where the gate listens, and in what it speaks before HTTP.
func (o *Options) validateListen(v *weir.Mistakes) {
	network, address := gate.Split(o.Listen)
	if o.Listen == "" {
		v.Add("listen", "the gate has no address to listen on", `write listen: ":8080"`)
	} else if network == "unix" {
		if !filepath.IsAbs(address) {
			v.Add("listen", fmt.Sprintf("%q is not the path of a socket from the root on", o.Listen),
				"write unix:/run/weir/http")
		}
	} else if _, port, err := net.SplitHostPort(o.Listen); err != nil {
		v.Add("listen", fmt.Sprintf("%q is not an address with a port", o.Listen),
			`write ":8080" or "127.0.0.1:8080", or unix:/run/weir/http`)
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		v.Add("listen", fmt.Sprintf("%q is not a port", port), "a number up to 65535")
	}
	if o.Socket != (Socket{}) && network != "unix" && o.Listen != "" {
		v.Add("socket", "the gate does not listen on a socket of this machine",
			"leave it out, or write listen: unix:/run/weir/http")
	}
	if m := o.Socket.Mode; m != "" {
		if mode, err := strconv.ParseUint(m, 8, 32); err != nil || mode > 0o777 {
			v.Add("socket.mode", fmt.Sprintf("%q is not a mode", m), "write 0660")
		}
	}
	if o.TLS != nil {
		v.Under("tls", o.TLS.Validate())
	}
	gate.ValidateProxies(v, "proxy_protocol.from", o.ProxyProtocol.From)
	if o.ProxyProtocol.Socket && network != "unix" {
		v.Add("proxy_protocol.socket", "the gate does not listen on a socket of this machine",
			"leave it out; from names the networks of proxies")
	}
}

// validateIdentity finds mistakes in how clients are known by what they have, and in the rules for headers.
func (o *Options) validateIdentity(v *weir.Mistakes, accounts *identify.Accounts) {
	if accounts.Certs() && (o.TLS == nil || o.TLS.ClientCA == "") {
		v.Add("account", "clients are not asked for certificates that could name an account",
			"write tls: {client_ca: …}")
	}
	if len(accounts.Claims()) > 0 && o.JWT == nil {
		v.Add("account", "nobody says how tokens are checked that could name an account",
			"write jwt: {key: …}, or jwt: {jwks: …}")
	}
	if o.JWT != nil {
		v.Under("jwt", o.JWT.Validate())
		if len(accounts.Claims()) == 0 && o.JWT.Plan == "" {
			v.Add("jwt", "what tokens say is used nowhere", "write account: [jwt:sub], or plan: plan")
		}
	}
	v.Under("headers.request", o.Headers.Request.validate())
	v.Under("headers.response", o.Headers.Response.validate())
}
