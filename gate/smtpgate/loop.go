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

// serve speaks with a client until one of the two ends it. A mistake of ours ends this session, and no other.
func (g *Gate) serve(c *conn) {
	defer g.quit(c)
	defer context.AfterFunc(g.Serving, c.wake)() // who is not sending a mail is told good-bye
	defer context.AfterFunc(g.Base, c.cut)()
	s := &session{gate: g, setup: c.setup, conn: c, top: c, wire: newWire(c)}
	s.begins()
	if !s.run() {
		s.answer(reply(421, 430, "a mistake of this server has ended the session, try again later"))
	}
	g.survives(s.reset) // throttles have everything back before the session is off the books
	g.survives(s.close)
}

const sessionFailed = "a session failed by a mistake in weir"

// survives runs a function whose panic must not keep the rest from being done.
func (g *Gate) survives(f func()) {
	defer g.Recover(sessionFailed, nil)
	f()
}

// run reads commands and obeys them, one after the other. It reports false if a mistake of ours has ended it.
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

// foreign are the first words of other protocols. What follows them may be a form that a browser was made to send.
var foreign = []string{"GET", "POST", "PUT", "HEAD", "OPTIONS", "PATCH", "DELETE", "CONNECT", "TRACE"}

// obey does what a command says, and answers it once.
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
		s.answer(reply(252, 250, "nobody is verified: send the mail, and see"))
	case "HELP":
		s.answer(reply(214, 200, "EHLO STARTTLS AUTH MAIL RCPT DATA BDAT RSET NOOP VRFY HELP QUIT"))
	case "QUIT":
		bare(func() {
			s.answer(reply(221, 200, "good-bye"))
			s.over = true
		})
	case "EXPN", "TURN", "ETRN", "SEND", "SOML", "SAML":
		s.deny(refuse(MailMalformed, 502, 551, "this command is not taken"))
	default:
		s.over = s.texts || slices.Contains(foreign, verb)
		s.deny(refuse(MailMalformed, 500, 552, "not a command"))
	}
}

// begins makes the client a new one: at first, and once it is encrypted.
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
	lines := []string{s.setup.host}
	if extended {
		lines = append(lines, s.offers()...)
	}
	var b strings.Builder
	for i, line := range lines {
		mark := "-"
		if i == len(lines)-1 {
			mark = " "
		}
		b.WriteString("250" + mark + line + "\r\n")
	}
	s.write(b.String())
}

// offers are the extensions that a client may use now. The parameters of stamps follow the way to log in.
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

// startTLS encrypts. What came in clear text, before or behind the command, is forgotten (RFC 3207 sections 4.2 and 6).
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

// encrypt makes TLS of the connection, and reports whether both sides agree on it. In the middle of it nothing can be
// said.
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

// answer says something in a line.
func (s *session) answer(a *answer) { s.write(a.String() + "\r\n") }

// write sends lines, once the client is listened to. Whether it still listens is found out then.
func (s *session) write(lines string) {
	if s.top != nil {
		_, _ = s.top.Write([]byte(lines))
	}
}

// close sends what has been said and ends the connection.
func (s *session) close() {
	if s.top != nil {
		_ = s.top.Close()
	}
	_ = s.conn.Close()
}
