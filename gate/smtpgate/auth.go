package smtpgate

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"weir"
	"weir/identify"
	"weir/login"
	"weir/store"
)

// maxName is how long the name of a user may be.
const maxName = store.MaxUser

// AuthMechanisms returns what a client may log in with. go-smtp offers it only inside TLS, and on loopback.
//
// It also joins the names and splits the answer to EHLO at line ends, which is the one way to get a line of our own into it: the parameters
// of stamps follow behind the last mechanism.
func (s *session) AuthMechanisms() []string {
	if s.setup.opts.Auth == AuthNone {
		return nil
	}
	all := []string{sasl.Plain, sasl.Login}
	if stamps := s.setup.parts.Stamps; stamps != nil {
		if line := stamps.Announce(s.now(), s.gate.load().Share); line != "" && !strings.ContainsAny(line, "\r\n") {
			all[1] += "\n" + line
		}
	}
	return all
}

// Auth begins a log-in.
func (s *session) Auth(mechanism string) (sasl.Server, error) {
	if err := s.leaving(); err != nil {
		return nil, err
	}
	switch {
	case s.setup.opts.Auth == AuthNone:
		return nil, smtp.ErrAuthUnsupported
	case s.current() != nil: // RFC 4954 section 4
		return nil, reply(503, 551, "AUTH is not allowed in the middle of a mail")
	}
	switch mechanism {
	case sasl.Plain:
		return tidy{sasl.NewPlainServer(func(identity, name, password string) error {
			if identity != "" && !strings.EqualFold(identity, name) {
				return reply(535, 578, "nobody sends in the name of another")
			}
			return s.logIn(name, password)
		})}, nil
	case sasl.Login:
		return tidy{&loginServer{logIn: s.logIn}}, nil
	}
	return nil, smtp.ErrAuthUnknownMechanism
}

// A tidy server answers a client that does not speak the mechanism as RFC 4954 wants it.
type tidy struct{ sasl.Server }

func (t tidy) Next(response []byte) (challenge []byte, done bool, err error) {
	challenge, done, err = t.Server.Next(response)
	if _, ok := errors.AsType[*smtp.SMTPError](err); err != nil && !ok {
		err = reply(501, 552, "cannot read what came for AUTH")
	}
	return challenge, done, err
}

// A loginServer speaks the LOGIN mechanism, which old clients have and go-sasl knows for clients only: first the name, then the password.
type loginServer struct {
	logIn func(name, password string) error
	name  string
	named bool
	done  bool
}

func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	switch {
	case l.done:
		return nil, false, sasl.ErrUnexpectedClientResponse
	case !l.named && response == nil:
		return []byte("Username:"), false, nil
	case !l.named:
		l.name, l.named = string(response), true
		return []byte("Password:"), false, nil
	}
	l.done = true
	return nil, true, l.logIn(l.name, string(response))
}

// logIn verifies a password. What it takes, and what is said, is the same for users who are not there.
func (s *session) logIn(name, password string) error {
	given := strings.ToLower(strings.TrimSpace(name))
	name = identify.LogInName(given, s.setup.opts.Realm)
	user, how, cause := s.verify(name, given, password)
	s.gate.env.Observer.LogIn(how)
	if log := s.gate.env.Log; log.Enabled(s.gate.base, slog.LevelInfo) {
		attrs := []slog.Attr{slog.String("session", s.conn.id), slog.String("source", s.conn.source.String()), slog.String("user", oneLine(name, 64)),
			slog.String("how", how)}
		if cause != nil {
			attrs = append(attrs, slog.Any("error", cause))
		}
		log.LogAttrs(s.gate.base, slog.LevelInfo, "log-in", attrs...)
	}
	if how == LogInRight {
		s.who = identity{name: name, authenticated: true, user: user, asked: s.now()}
		s.gate.welcome(s.conn)
		return nil
	}
	if s.conn.logins.Add(1) >= int64(s.setup.opts.Bounds.Logins) {
		return s.last(BoundLogins, "too many failed log-ins")
	}
	switch how {
	case LogInBusy, LogInFailed:
		return reply(454, 470, "logging in is not possible right now, try again later")
	case LogInGuessing:
		return reply(454, 470, "too many wrong passwords, try again later")
	case LogInStopped:
		return reply(535, 578, "sending is stopped for this account: see the mail about it, or ask support")
	}
	return reply(535, 578, "wrong name or password")
}

var errUnknown = errors.New("the password is right, but weir does not know the user: see weir user")

// verify finds out whether a password is right, for a user by his name here, and as it was given.
func (s *session) verify(name, given, password string) (user store.User, how string, cause error) {
	ctx := s.gate.base
	if name == "" || len(name) > maxName || strings.ContainsFunc(given, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
		guess, err := s.guess("", func() bool { return false })
		if err != nil {
			return user, notLooked(err), nil
		}
		guess.End(s.now(), true)
		return user, LogInWrong, nil
	}
	user, err := s.gate.env.Spool.User(ctx, name)
	known := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return user, LogInFailed, err
	}
	logins, stored := s.gate.env.Logins, ""
	elsewhere := s.setup.opts.Auth == AuthNextHop
	switch {
	case elsewhere:
		stored = "at the next hop of " + s.gate.env.Name // whatever it is, it is not known here
	case known:
		stored = user.Password
	}
	// Who logged in with this of late does not guess, whatever others do from there, or in his name.
	guess, err := s.guess(name, func() bool { return logins != nil && logins.Remembered(name, stored, password) })
	if err != nil {
		return user, notLooked(err), nil
	}
	wrong := true // unless something else is found out
	defer func() {
		if guess == nil && wrong { // it was right a short while ago
			guess, _ = s.guess(name, func() bool { return false })
		}
		guess.End(s.now(), wrong)
	}()
	if elsewhere {
		user.Name = name
		err = s.setup.parts.Relay.Auth(ctx, given, password)
		if err == nil && !known && s.setup.opts.KnownOnly {
			err, cause = login.ErrWrong, errUnknown
		}
		if err == nil && logins != nil {
			logins.Remember(name, stored, password)
		}
	} else {
		err = logins.Verify(ctx, name, stored, password)
	}
	wrong = errors.Is(err, login.ErrWrong)
	switch {
	case err == nil:
	case wrong:
		return user, LogInWrong, cause
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

// guess takes what a wrong password costs, before it is looked at. What is no name is nobody's.
func (s *session) guess(name string, known func() bool) (*login.Guess, error) {
	var limits []login.Limit
	if t := s.setup.parts.Guesses; t != nil {
		limits = append(limits, login.Limit{Throttle: t, Key: "at " + s.gate.env.Name + " from " + neighbourhood(s.conn.source)})
	}
	if t := s.setup.parts.UserGuesses; t != nil && name != "" {
		limits = append(limits, login.Limit{Throttle: t, Key: "user " + name})
	}
	return s.gate.env.Guard.Take(s.gate.base, limits, func() weir.Event {
		return weir.Event{Time: s.now(), Source: s.conn.source, Account: name, Kind: KindLogIn, ID: s.conn.id, Cost: 1}
	}, known)
}

// neighbourhood is who may share a unit of Parts.Guesses, at most: as wide a network as it counts.
func neighbourhood(source netip.Addr) string {
	source = source.Unmap()
	bits := 48
	if source.Is4() {
		bits = 24
	}
	prefix, _ := source.Prefix(bits)
	return prefix.String()
}

// notLooked is how a log-in ends whose password was not looked at.
func notLooked(err error) string {
	switch {
	case errors.Is(err, login.ErrGuessing):
		return LogInGuessing
	case errors.Is(err, login.ErrBusy):
		return LogInBusy
	}
	return LogInFailed
}
