package smtpgate

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/netip"
	"strings"

	"weir"
	"weir/identify"
	"weir/internal/turns"
	"weir/mail/login"
	"weir/mail/spool"
	"weir/store"
)

// maxName is how long the name of a user may be.
const maxName = store.MaxUser

// mayLogIn reports whether passwords are safe on this connection.
func (s *session) mayLogIn() bool { return s.tls || s.setup.clear }

// auth logs a user in (RFC 4954).
func (s *session) auth(arg string) {
	mechanism, first, _ := strings.Cut(arg, " ")
	var n *no
	switch {
	case s.helo == "":
		n = refuse(MailMalformed, 503, 551, "EHLO first")
	case s.setup.opts.Auth == AuthNone:
		n = refuse(MailMalformed, 502, 551, "there is no AUTH here")
	case s.who.authenticated:
		n = refuse(MailMalformed, 503, 551, "you have logged in already")
	case s.tx != nil: // section 4
		n = refuse(MailMalformed, 503, 551, "AUTH is not allowed in the middle of a mail")
	case mechanism == "" || strings.Contains(first, " "):
		n = refuse(MailMalformed, 501, 554, "write AUTH PLAIN, or AUTH LOGIN")
	case !s.mayLogIn():
		n = refuse(MailMalformed, 523, 5710, "logging in needs encryption: STARTTLS first")
	case strings.EqualFold(mechanism, "PLAIN"):
		s.plain(first)
		return
	case strings.EqualFold(mechanism, "LOGIN"):
		s.login(first)
		return
	default:
		n = refuse(MailMalformed, 504, 574, "log in with PLAIN or LOGIN")
	}
	s.deny(n)
}

// plain is the mechanism of RFC 4616: on whose behalf, the name and the password in one response.
func (s *session) plain(first string) {
	response, ok := s.ask("", first)
	if !ok {
		return
	}
	parts := strings.Split(response, "\x00")
	switch {
	case len(parts) != 3:
		s.unreadable()
	case parts[0] != "" && !strings.EqualFold(parts[0], parts[1]):
		s.deny(refuse(MailStranger, 535, 578, "you may not send in the name of another user"))
	default:
		s.logIn(parts[1], parts[2])
	}
}

// login is a mechanism of old clients: first the name, then the password.
func (s *session) login(first string) {
	name, ok := s.ask("Username:", first)
	if !ok {
		return
	}
	if password, ok := s.ask("Password:", ""); ok {
		s.logIn(name, password)
	}
}

// ask returns the response of the client, which may have sent it with the command. If there is none, the client has
// been answered.
func (s *session) ask(what, given string) (response string, ok bool) {
	if given == "" {
		s.answer(reply(334, 0, base64.StdEncoding.EncodeToString([]byte(what))))
		line, err := s.wire.line(int(s.setup.opts.Bounds.Line))
		if err != nil {
			s.broken(err)
			return "", false
		}
		given = string(line)
		if given == "*" {
			s.deny(refuse(MailMalformed, 501, 570, "AUTH was cancelled"))
			return "", false
		}
	} else if given == "=" { // an empty one
		return "", true
	}
	decoded, err := base64.StdEncoding.DecodeString(given)
	if err != nil {
		s.unreadable()
		return "", false
	}
	return string(decoded), true
}

func (s *session) unreadable() {
	s.deny(refuse(MailMalformed, 501, 552, "cannot read the data of AUTH"))
}

// logIn verifies a password. Time and answer are the same if there is no such user.
func (s *session) logIn(name, password string) {
	given := strings.ToLower(strings.TrimSpace(name))
	name = identify.LogInName(given, s.setup.opts.Realm)
	user, how, cause := s.verify(name, given, password)
	s.gate.env.Observer.LogIn(how)
	if log := s.gate.env.Log; log.Enabled(s.gate.Base, slog.LevelInfo) {
		attrs := []slog.Attr{slog.String("session", s.conn.id), slog.String("source", s.conn.source.String()),
			slog.String("user", oneLine(name, 64)), slog.String("how", how)}
		if cause != nil {
			attrs = append(attrs, slog.Any("error", cause))
		}
		log.LogAttrs(s.gate.Base, slog.LevelInfo, "login", attrs...)
	}
	if how == LogInRight {
		s.who = identity{name: name, authenticated: true, user: user, asked: s.now()}
		s.gate.welcome(s.conn)
		s.answer(reply(235, 270, "you have logged in"))
		return
	}
	if s.logins++; s.logins >= s.setup.opts.Bounds.Logins {
		s.answer(s.last(BoundLogins, "too many failed logins"))
		return
	}
	n := refuse(MailStranger, 535, 578, "wrong name or password")
	switch how {
	case LogInBusy, LogInFailed:
		n = refuse(MailStranger, 454, 470, "logging in is not possible right now, try again later")
	case LogInGuessing:
		n = refuse(MailStranger, 454, 470, "too many wrong passwords, try again later")
	case LogInStopped:
		n = refuse(MailStranger, 535, 578, spool.ErrStopped.Text)
	}
	s.deny(n)
}

var errUnknown = errors.New("the password is right, but weir does not know the user: see weir user")

// verify verifies a password, for a user by the name here, and as the client gave it.
func (s *session) verify(name, given, password string) (user store.User, how string, cause error) {
	ctx := s.gate.Base
	a := login.Attempt{Name: name, Password: password, Source: s.conn.source, Event: func() weir.Event {
		return weir.Event{Time: s.now(), Source: s.conn.source, Account: name, Kind: KindLogIn, ID: s.conn.id, Cost: 1}
	}}
	if t := s.setup.parts.Guesses; t != nil {
		a.Limits = append(a.Limits, login.Limit{Throttle: t,
			Key: "at " + s.gate.env.Name + " from " + neighbourhood(s.conn.source)})
	}
	if name == "" || len(name) > maxName ||
		strings.ContainsFunc(given, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
		a.Name = ""
	} else if t := s.setup.parts.UserGuesses; t != nil {
		a.Limits = append(a.Limits, login.Limit{Throttle: t, Key: "user " + name})
	}
	if a.Name != "" {
		var err error
		if user, err = s.gate.env.Spool.Account(ctx, name); err != nil {
			return user, LogInFailed, err
		}
	}
	if s.setup.opts.Auth == AuthNextHop {
		user.Name = name
		a.Stored = "at the next hop of " + s.gate.env.Name // stands for a hash that weir does not have
		a.Ask = func(ctx context.Context, rank turns.Rank) error {
			err := s.setup.parts.Relay.Auth(ctx, rank, given, password)
			if err == nil && user.Made.IsZero() && s.setup.opts.KnownOnly {
				err, cause = login.ErrWrong, errUnknown
			}
			return err
		}
	} else {
		a.Stored = user.Password
	}
	switch err := s.gate.env.Door.LogIn(ctx, &a); {
	case err == nil:
	case errors.Is(err, login.ErrWrong):
		return user, LogInWrong, cause
	case errors.Is(err, login.ErrGuessing):
		return user, LogInGuessing, cause
	case errors.Is(err, login.ErrBusy):
		return user, LogInBusy, nil
	default:
		return user, LogInFailed, err
	}
	switch {
	case user.Disabled:
		return user, LogInDisabled, nil
	case s.setup.opts.Stopped == RefuseAuth && s.gate.env.Spool.Stopped(s.gate.env.Name, name):
		return user, LogInStopped, nil
	}
	return user, LogInRight, nil
}

// neighbourhood is the widest network whose clients may share a unit of Parts.Guesses.
func neighbourhood(source netip.Addr) string {
	source = source.Unmap()
	bits := 48
	if source.Is4() {
		bits = 24
	}
	prefix, _ := source.Prefix(bits)
	return prefix.String()
}
