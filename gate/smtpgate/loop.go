package smtpgate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// serve runs a session. A panic ends this session, and no other.
func (g *Gate) serve(c *conn) {
	defer g.quit(c)
	defer context.AfterFunc(g.Serving, c.wake)() // ends sessions without a text under way
	defer context.AfterFunc(g.Base, c.cut)()
	s := &session{gate: g, setup: c.setup, conn: c, top: c, wire: newWire(c)}
	s.begins()
	if !s.run() {
		s.answer(reply(421, 430, "an internal error has ended the session, try again later"))
	}
	g.survives(s.reset) // throttles get everything back before quit
	g.survives(s.close)
}

const sessionFailed = "a session failed because of a bug in weir"

// survives runs a function, and recovers from a panic.
func (g *Gate) survives(f func()) {
	defer g.Recover(sessionFailed, nil)
	f()
}

// run reads commands and obeys them, one after the other. It reports false after a panic.
func (s *session) run() (ended bool) {
	defer s.gate.Recover(sessionFailed, nil)
	if s.setup.opts.TLS.Mode == TLSImplicit && !s.encrypt() {
		return true
	}
	s.write("220 " + s.setup.host + " ESMTP\r\n")
	for !s.over {
		line, err := s.wire.line(int(s.setup.opts.Bounds.Line))
		if err != nil {
			s.broken(err)
			return true
		}
		if s.commands++; s.commands > s.setup.opts.Bounds.Commands {
			s.answer(s.last(BoundCommands, "too many commands in one session"))
			return true
		}
		s.obey(parseCommand(line))
	}
	return true
}

// foreign are the first words of HTTP. A form that a browser was made to send may follow.
var foreign = []string{"GET", "POST", "PUT", "HEAD", "OPTIONS", "PATCH", "DELETE", "CONNECT", "TRACE"}

// obey carries out a command, and answers it once.
func (s *session) obey(verb, arg string) {
	bare := func(f func()) {
		if arg != "" {
			s.deny(refuse(MailMalformed, 501, 554, verb+" has no parameters"))
			return
		}
		f()
	}
	switch verb {
	case "EHLO", "HELO":
		s.hello(arg, verb == "EHLO")
	case "STARTTLS":
		bare(s.startTLS)
	case "AUTH":
		s.auth(arg)
	case "MAIL":
		s.mail(arg)
	case "RCPT":
		s.rcpt(arg)
	case "DATA":
		s.data(arg)
	case "BDAT":
		s.bdat(arg)
	case "RSET":
		bare(func() {
			s.reset()
			s.answer(reply(250, 200, "OK"))
		})
	case "NOOP":
		s.answer(reply(250, 200, "OK"))
	case "VRFY":
		s.answer(reply(252, 250, "addresses are not verified: send the message to find out"))
	case "HELP":
		s.answer(reply(214, 200, "EHLO STARTTLS AUTH MAIL RCPT DATA BDAT RSET NOOP VRFY HELP QUIT"))
	case "QUIT":
		bare(func() {
			s.answer(reply(221, 200, "good-bye"))
			s.over = true
		})
	case "EXPN", "TURN", "ETRN", "SEND", "SOML", "SAML":
		s.deny(refuse(MailMalformed, 502, 551, "this command is not supported"))
	default:
		s.over = s.texts || slices.Contains(foreign, verb)
		s.deny(refuse(MailMalformed, 500, 552, "not a command"))
	}
}

// begins forgets what is known of the client: at first, and again under TLS.
func (s *session) begins() {
	s.helo, s.who = "", identity{name: s.setup.freeUser(s.conn.source)}
	s.conn.free = s.who.name != ""
}

// hello answers EHLO and HELO, and gives up what is under way (RFC 5321 section 4.1.4).
func (s *session) hello(arg string, extended bool) {
	name, _, _ := strings.Cut(arg, " ")
	if name == "" {
		s.deny(refuse(MailMalformed, 501, 554, "say who you are: EHLO name"))
		return
	}
	s.reset()
	s.helo = name
	last := s.setup.host
	if extended {
		for _, line := range s.offers() {
			s.write("250-" + last + "\r\n")
			last = line
		}
	}
	s.write("250 " + last + "\r\n")
}

// offers are the extensions that a client may use now. The parameters of stamps follow AUTH.
func (s *session) offers() []string {
	all := []string{"PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES", "CHUNKING"}
	if s.setup.opts.TLS.Mode == TLSStart && !s.tls {
		all = append(all, "STARTTLS")
	}
	if s.setup.opts.Auth != AuthNone && s.mayLogIn() {
		all = append(all, "AUTH PLAIN LOGIN")
		if stamps := s.setup.parts.Stamps; stamps != nil {
			if line := stamps.Announce(s.now(), s.gate.load().Share); line != "" && !strings.ContainsAny(line, "\r\n") {
				all = append(all, line)
			}
		}
	}
	b := &s.setup.opts.Bounds
	return append(all, "SMTPUTF8", "DSN", fmt.Sprintf("SIZE %d", int64(b.Message)),
		fmt.Sprintf("LIMITS RCPTMAX=%d", b.Recipients))
}

// startTLS encrypts. Everything that came before is forgotten, and what was pipelined behind the command is dropped
// (RFC 3207 sections 4.2 and 6).
func (s *session) startTLS() {
	switch {
	case s.tls:
		s.deny(refuse(MailMalformed, 503, 551, "the session is encrypted already"))
	case s.setup.opts.TLS.Mode != TLSStart:
		s.deny(refuse(MailMalformed, 502, 551, "there is no TLS here"))
	default:
		s.answer(reply(220, 200, "go ahead"))
		s.reset()
		if s.begins(); !s.encrypt() {
			s.over = true
		}
	}
}

// encrypt does the TLS handshake, and reports whether it succeeded. After a failure nothing can be written.
func (s *session) encrypt() bool {
	s.top = nil
	encrypted := tls.Server(s.conn, s.setup.tls)
	s.wire = newWire(encrypted)
	if err := encrypted.Handshake(); err != nil {
		if log := s.gate.env.Log; log.Enabled(s.gate.Base, slog.LevelDebug) {
			log.Debug("a session ended early", "session", s.conn.id, "source", s.conn.source.String(), "error", err)
		}
		return false
	}
	s.top, s.tls = encrypted, true
	return true
}

// broken ends a session whose next command cannot be read.
func (s *session) broken(err error) {
	if why, ok := errors.AsType[*end](err); ok {
		s.farewell(why)
		return
	}
	switch s.over = true; {
	case errors.Is(err, errLongLine):
		s.gate.env.Observer.Bounded(BoundLine)
		s.answer(reply(500, 552, "line too long"))
	case errors.Is(err, errBareLine):
		s.answer(reply(500, 552, "a bare CR or LF is not allowed: lines end with CR LF"))
	}
}

// farewell tells the client why the session ends.
func (s *session) farewell(why *end) {
	s.over = true
	if why.bound != "" {
		s.gate.env.Observer.Bounded(why.bound)
	}
	if why.says != "" {
		s.write(why.says + "\r\n")
	}
}

func (s *session) answer(a *answer) { s.write(a.String() + "\r\n") }

// write keeps lines until the next read. That returns the error if they cannot be sent.
func (s *session) write(lines string) {
	if s.top != nil {
		_, _ = s.top.Write([]byte(lines))
	}
}

// close sends the answers and ends the connection.
func (s *session) close() {
	if s.top != nil {
		_ = s.top.Close()
	}
	_ = s.conn.Close()
}
