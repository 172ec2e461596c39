package httpgate

import (
	"fmt"
	"net/netip"

	"weir"
	"weir/gate"
	"weir/identify"
)

// A Socket is a file of this machine, with an owner and a mode that say who may use it.
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

// A ProxyProtocol is a list of the proxies that name the source of a connection, in a PROXY header in front of
// everything else.
type ProxyProtocol struct {
	// The networks of proxies that do. Each of their connections begins with a PROXY header of version 1 or 2, or it is
	// closed. A PROXY header from anybody else is not accepted. Default: none.
	From []netip.Prefix `yaml:"from"`
	// Whether those who use the socket do, where listen is one. Default false.
	Socket bool `yaml:"socket"`
}

// validateListen finds mistakes in where the gate listens, and in what it speaks before HTTP.
func (o *Options) validateListen(v *weir.Mistakes) {
	where := gate.Address{Listen: o.Listen, Socket: o.Socket.rights(), TCP: `":8080"`, Unix: "unix:/run/weir/http"}
	where.Validate(v)
	if network, _ := gate.Split(o.Listen); network != "unix" && o.Listen != "" {
		const missing = "the gate does not listen on a socket of this machine"
		if o.Socket == (Socket{Trusted: true}) {
			v.Add("socket", missing, "leave it out, or write listen: unix:/run/weir/http")
		}
		if o.ProxyProtocol.Socket {
			v.Add("proxy_protocol.socket", missing, "leave it out; from names the networks of proxies")
		}
	}
	if o.TLS != nil {
		v.Under("tls", o.TLS.Validate())
	}
	gate.ValidateProxies(v, "proxy_protocol.from", o.ProxyProtocol.From)
}

// validateIdentity finds mistakes in how clients are known by what they have, and in the rules for headers.
func (o *Options) validateIdentity(v *weir.Mistakes, accounts *identify.Accounts) {
	if accounts.Certs() && (o.TLS == nil || o.TLS.ClientCA == "") {
		v.Add("account", "accounts are taken from certificates, for which clients are not asked",
			"write tls: {client_ca: …}")
	}
	if len(accounts.Claims()) > 0 && o.JWT == nil {
		v.Add("account", "accounts are taken from tokens, which are not checked",
			"write jwt: {key: …}, or jwt: {jwks: …}")
	}
	if o.JWT != nil {
		v.Under("jwt", o.JWT.Validate())
		if len(accounts.Claims()) == 0 && o.JWT.Plan == "" {
			v.Add("jwt", "tokens are checked, but not used", "write account: [jwt:sub], or plan: plan")
		}
	}
	v.Under("headers.request", o.Headers.Request.validate())
	v.Under("headers.response", o.Headers.Response.validate())
}

// A File is one that options name, and the field that does.
type File struct{ Field, Path string }

// Files are those that options name, and without which a gate does not start.
func (o *Options) Files() (all []File) {
	add := func(field, path string) {
		if path != "" {
			all = append(all, File{field, path})
		}
	}
	if t := o.TLS; t != nil {
		add("tls.cert", t.Cert)
		add("tls.key", t.Key)
		for i, c := range t.Certificates {
			add(fmt.Sprintf("tls.certificates[%d].cert", i), c.Cert)
			add(fmt.Sprintf("tls.certificates[%d].key", i), c.Key)
		}
		add("tls.client_ca", t.ClientCA)
	}
	if t := o.Upstream.TLS; t != nil {
		add("upstream.tls.ca", t.CA)
		add("upstream.tls.cert", t.Cert)
		add("upstream.tls.key", t.Key)
	}
	if j := o.JWT; j != nil {
		add("jwt.key", j.Key)
		if !j.Remote() {
			add("jwt.jwks", j.JWKS)
		}
	}
	return all
}
