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
	"sync"

	"weir"
	"weir/gate"
	"weir/identify"
	"weir/internal/logs"
	"weir/internal/readfile"
	"weir/policy"
)

// KindMail is the kind of the events that a gate puts before its chains, and KindLogIn of those that limit wrong
// passwords.
const (
	KindMail  = "mail"
	KindLogIn = "login"
)

// A Gate is one listener for mail.
type Gate struct {
	*gate.Skeleton[setup]
	env     Env
	untaken logs.Line // messages that could not be accepted

	clients clients

	mu        sync.Mutex
	known     int // sessions of known sources
	strangers gate.Crowd
	bySource  map[netip.Addr]int
	regulars  regulars
}

// New returns a gate that listens nowhere yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	env, err := env.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := newSetup(env, o, p)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env, bySource: map[netip.Addr]int{}, regulars: regulars{}}
	g.Skeleton = gate.New(env.Env, s, gate.Hooks[setup]{
		What: "sessions",
		Open: func(s *setup) (gate.Listener, error) { return g.env.Sockets.Listen(s.opts.Listen, gate.Socket{}) },
		Take: g.receive,
	})
	return g, nil
}

// Prepare makes ready to go on with other options and parts, and reads the certificate again. Everything that can fail
// happens here; then either commit, which cannot fail, or abort must be called. Sessions under way keep the options
// that they began with. The listener is kept: a changed listen address is ignored, it takes another gate.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	o.Listen = g.Setup.Load().opts.Listen
	return g.Replace(newSetup(g.env, o, p))
}

// load is how much there is to deliver.
func (g *Gate) load() weir.Load {
	return weir.Load{Of: g.env.Name, Share: weir.Share(g.env.Spool.Load(g.env.Name))}
}

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
	case o.Auth == AuthUsers && env.Door.Verifier == nil:
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
	cert, err := readfile.Pair(s.opts.TLS.Cert, s.opts.TLS.Key)
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
