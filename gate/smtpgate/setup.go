package smtpgate

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"weir"
	"weir/identify"
	"weir/policy"
)

// A setup is what sessions need to know of the options. It does not change. A reload replaces it, and a session keeps
// the one that it began with.
type setup struct {
	opts  Options // with defaults
	parts Parts
	host  string
	door  *policy.Door
	tls   *tls.Config // nil: none

	clear bool // passwords may come in clear text: only this machine can connect

	command    address // empty: there is none
	postmaster string  // gets the mail to postmaster without a domain
}

func newSetup(env Env, o Options, p Parts) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	s := &setup{opts: o, parts: p, host: cmp.Or(o.Hostname, "localhost")}
	s.postmaster = cmp.Or(o.Postmaster, postmaster+"@"+s.host)
	listen, _, _ := net.SplitHostPort(o.Listen)
	s.clear = loopback(listen)
	switch {
	case o.Auth == AuthUsers && env.Logins == nil:
		return nil, errors.New("there is nobody to verify passwords")
	case o.Auth == AuthNextHop && p.Relay == nil:
		return nil, errors.New("there is nobody to ask the next hop about passwords")
	}
	if o.Stamps == nil {
		s.parts.Stamps = nil
	}
	if p.Accept != nil {
		s.door = policy.NewDoor(p.Accept, nil)
	}
	if o.Command != "" {
		s.command, _ = parseAddress(o.Command, false)
	}
	if err := s.loadTLS(); err != nil {
		return nil, err
	}
	return s, nil
}

// loadTLS reads the certificate.
func (s *setup) loadTLS() error {
	if !s.opts.encrypted() {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(s.opts.TLS.Cert, s.opts.TLS.Key)
	if err != nil {
		return &weir.FieldError{Path: "tls", Msg: fmt.Sprintf("cannot use the certificate: %v", err),
			Hint: "cert and key are files in PEM that belong together"}
	}
	s.tls = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	return nil
}

// freeUser is the user of a client that may send without AUTH. It is empty for others.
func (s *setup) freeUser(source netip.Addr) string {
	if slices.ContainsFunc(s.opts.Networks, func(p netip.Prefix) bool { return p.Contains(source) }) {
		return identify.AddressUser(source)
	}
	return ""
}

// isCommand reports whether an address is the command address, and with which detail.
func (s *setup) isCommand(a address) (ticket string, is bool) {
	if s.command.local == "" || !strings.EqualFold(a.domain, s.command.domain) {
		return "", false
	}
	local, ticket, _ := strings.Cut(a.local, "+")
	return strings.ToLower(ticket), strings.EqualFold(local, s.command.local)
}
