package smtpgate

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"github.com/emersion/go-smtp"

	"weir"
	"weir/identify"
	"weir/internal/doorway"
	"weir/policy"
)

// A setup is everything that a session needs to know of the gate's options. It does not change; a reload puts another one in its place, and
// a session keeps the one that it began with.
type setup struct {
	opts  Options // with defaults
	parts Parts
	host  string
	door  *policy.Door
	tls   *tls.Config // nil: none

	command address // where there is one

	server  *smtp.Server
	doorway *doorway.Doorway
}

func newSetup(g *Gate, o Options, p Parts) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	s := &setup{opts: o, parts: p, host: cmp.Or(o.Hostname, "localhost")}
	switch {
	case o.Auth == AuthUsers && g.env.Logins == nil:
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
	s.server = s.newServer(g)
	s.doorway = doorway.New(&net.TCPAddr{})
	return s, nil
}

// loadTLS reads the certificate.
func (s *setup) loadTLS() error {
	if !s.opts.encrypted() {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(s.opts.TLS.Cert, s.opts.TLS.Key)
	if err != nil {
		return &weir.FieldError{Path: "tls", Msg: fmt.Sprintf("cannot use the certificate: %v", err), Hint: "cert and key are files in PEM that belong together"}
	}
	s.tls = &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil },
		MinVersion:     tls.VersionTLS12,
		NextProtos:     nil, // mail clients send none, and an unknown one is no reason to fail
	}
	return nil
}

// newServer returns the server that speaks to sessions of this setup. It keeps no deadlines: conn does.
func (s *setup) newServer(g *Gate) *smtp.Server {
	server := smtp.NewServer(smtp.BackendFunc(g.newSession))
	server.Domain = s.host
	server.MaxRecipients = s.opts.Bounds.Recipients
	// The server takes DATA of less than this, and BDAT and SIZE of as much. What is allowed is counted again by intake.
	server.MaxMessageBytes = int64(s.opts.Bounds.Message) + 1
	server.MaxLineLength = int(s.opts.Bounds.Line)
	server.EnableSMTPUTF8 = true
	server.EnableDSN = true
	server.ErrorLog = complaints{g}
	if s.opts.TLS.Mode == TLSStart {
		server.TLSConfig = s.tls
	}
	host, _, _ := net.SplitHostPort(s.opts.Listen)
	server.AllowInsecureAuth = loopback(host)
	return server
}

// freeUser is the user that a client is who may send without AUTH; empty for others.
func (s *setup) freeUser(source netip.Addr) string {
	for _, p := range s.opts.Networks {
		if p.Contains(source) {
			return identify.AddressUser(source)
		}
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

// complaints are what go-smtp has to say: that handshakes fail, which is everyday business, and what it died of.
type complaints struct{ gate *Gate }

func (c complaints) Printf(format string, v ...any) {
	if strings.HasPrefix(format, "panic") {
		c.gate.panicked(fmt.Sprintf(format, v...))
		return
	}
	if c.gate.env.Log.Enabled(c.gate.base, slog.LevelDebug) {
		c.gate.env.Log.Debug("a session ended early", "error", fmt.Sprintf(format, v...))
	}
}

func (c complaints) Println(v ...any) { c.Printf("%s", fmt.Sprintln(v...)) }
