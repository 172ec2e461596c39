package smtpgate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/identify"
	"weir/store"
)

// A session is one connection of a client, from the first byte to the last. It has a goroutine of its own, see serve.
type session struct {
	gate    *Gate
	setup   *setup
	conn    *conn
	top     net.Conn // what is spoken on: the connection, or TLS over it; nil while they agree on it
	wire    *wire
	tls     bool
	helo    string // what the client calls itself; empty before EHLO
	who     identity
	tx      *transaction // nil: none is under way
	arrival *delivery    // the text of tx; nil: it has not begun
	over    bool         // the last answer has been given
	texts   bool         // a DATA was refused, and its text may come all the same

	commands, errors, logins int // how many there were
}

// An identity is who sends: an authenticated user, or a client that may send without, by its address. The zero value is
// a stranger.
type identity struct {
	name          string
	authenticated bool
	user          store.User // of the store, where it has one
	asked         time.Time  // when the store was asked
}

// now is the time by the gate's clock.
func (s *session) now() time.Time { return s.gate.env.Clock.Now() }

// refuse says that a sender or a recipient is not taken, and tells those who want to know.
func (s *session) refuse(n *no) {
	s.gate.env.Observer.Refused(n.how)
	level := slog.LevelInfo
	if s.who.name == "" {
		level = slog.LevelDebug // strangers must not fill the log
	}
	if log := s.gate.env.Log; log.Enabled(s.gate.Base, level) {
		log.LogAttrs(s.gate.Base, level, "refused", slog.String("session", s.conn.id),
			slog.String("source", s.conn.source.String()),
			slog.String("user", s.who.name), slog.String("refused", n.how), slog.Int("code", n.reply.code),
			slog.String("why", n.reply.text))
	}
	s.deny(n)
}

// deny says no. After too many of these, or on a last word, the session ends.
func (s *session) deny(n *no) {
	if n.bound != "" {
		s.gate.env.Observer.Bounded(n.bound)
	}
	if n.cause != nil { // a full disk fails every mail
		s.gate.Warn(&s.gate.untaken, "mail could not be taken", slog.String("session", s.conn.id),
			slog.Any("error", n.cause))
	}
	s.errors++
	switch {
	case s.over: // it ends here in any case
	case s.errors >= s.setup.opts.Bounds.Errors:
		s.answer(s.last(BoundErrors, "too many errors in one session"))
		return
	case n.reply.code == 421:
		s.over = true
	}
	s.answer(n.reply)
}

// last makes an answer the last one of the session.
func (s *session) last(bound, text string) *answer {
	s.gate.env.Observer.Bounded(bound)
	s.over = true
	return reply(421, 470, text)
}

// early answers a command that comes before another one was taken. It does not count as an error: clients that pipeline
// have sent it before they could know (RFC 2920 section 3.1).
func (s *session) early(text string) { s.answer(reply(503, 551, text)) }

// fresh is how old what is known of a user may be: a user who is disabled, or bound to other senders, feels it in open
// sessions, too.
const fresh = 10 * time.Second

// refresh asks the store about who sends. The identity must be somebody's.
func (s *session) refresh(ctx context.Context) *no {
	now := s.now()
	if !s.who.asked.IsZero() && now.Sub(s.who.asked) < fresh {
		return nil
	}
	// Servers that send without AUTH often have a session for each mail.
	if !s.who.authenticated && s.gate.clients.find(&s.who, now) {
		return nil
	}
	user, err := s.gate.env.Spool.User(ctx, s.who.name)
	switch {
	case err == nil:
	case !errors.Is(err, store.ErrNotFound):
		return &no{how: MailFailed, reply: reply(451, 430, "the user cannot be looked up, try again later"), cause: err}
	case s.who.authenticated && (s.setup.opts.Auth == AuthUsers || s.setup.opts.KnownOnly):
		return refuse(MailStranger, 550, 571, "there is no such user any more")
	default:
		user = store.User{Name: s.who.name}
	}
	if s.who.authenticated && s.setup.opts.Auth == AuthUsers && user.Password != s.who.user.Password {
		s.who = identity{} // who logged in with the old one may be who made it necessary
		return refuse(MailStranger, 421, 470, "the password was changed: log in again")
	}
	s.who.user, s.who.asked = user, now
	if user.Disabled {
		s.who.asked = time.Time{}
		return refuse(MailStranger, 550, 571, "the user is disabled")
	}
	if !s.who.authenticated {
		s.gate.clients.add(&s.who)
	}
	return nil
}

// clients are those known by their addresses that the store was asked about of late.
type clients struct {
	mu   sync.Mutex
	seen map[string]identity
}

// maxClients is how many are remembered; then all are forgotten, and asked about again.
const maxClients = 4096

// find completes an identity by what is known, and reports whether something is.
func (c *clients) find(who *identity, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.seen[who.name]
	if ok = ok && now.Sub(known.asked) < fresh; ok {
		*who = known
	}
	return ok
}

func (c *clients) add(who *identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= maxClients {
		c.seen = map[string]identity{}
	}
	c.seen[who.name] = *who
}

// maySend reports whether who sends may write a sender address.
func (s *session) maySend(from address) bool {
	list := s.who.user.Senders
	if len(list) == 0 {
		return s.setup.opts.Senders == SendersAny
	}
	if from.local == "" {
		return false
	}
	normal := from.normal()
	for _, sender := range list {
		if domain, all := strings.CutPrefix(sender, "@"); all {
			if strings.EqualFold(domain, from.domain) {
				return true
			}
			continue
		}
		if r, err := identify.Recipient(sender); err == nil && r == normal {
			return true
		}
	}
	return false
}

// ClientMark stands before the name of a user where clients of other gates have ids too.
const ClientMark = "mail:"

// event is what the throttles are asked about.
func (s *session) event(tx *transaction, recipients []string) weir.Event {
	// On the invalid list a user is a client, so that one can be put there without those who share the address.
	return weir.Event{Time: s.now(), Source: s.conn.source, Account: tx.who.name, Client: ClientMark + tx.who.name,
		Kind: KindMail, ID: s.conn.id, Cost: 1, Load: s.gate.load(),
		Message: &weir.Message{User: tx.who.name, Recipients: recipients}}
}

// reset gives up the mail under way.
func (s *session) reset() {
	if s.arrival != nil {
		s.arrival.finish(errAborted)
	}
	s.settle()
}

// settle ends what the mail under way has taken, except for what went on with it.
func (s *session) settle() {
	s.texts = false
	s.conn.received()
	arrival, tx := s.arrival, s.tx
	s.arrival, s.tx = nil, nil
	if arrival != nil {
		arrival.discard()
	}
	if tx != nil {
		tx.settle(s.now(), false)
	}
}
