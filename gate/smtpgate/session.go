package smtpgate

import (
	"context"
	"log/slog"
	"net"
	"slices"
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
	top     net.Conn // the connection, or TLS over it; nil during the handshake
	wire    *wire
	tls     bool
	helo    string // the name in EHLO; empty before
	who     identity
	tx      *transaction // nil: there is none
	arrival *arrival     // the text of tx; nil: it has not begun
	over    bool         // the last answer has been given
	texts   bool         // a DATA was refused, and its text may come all the same

	commands, errors, logins int // so far
}

// An identity is an authenticated user, or a client that may send without AUTH, by its address. The zero value is a
// stranger.
type identity struct {
	name          string
	authenticated bool
	user          store.User // as stored, or only a name
	asked         time.Time  // when the store was asked
}

func (s *session) now() time.Time { return s.gate.env.Clock.Now() }

// refuse refuses a sender or a recipient, and tells log and observer.
func (s *session) refuse(n *no) {
	s.gate.env.Observer.Refused(n.how, s.who.name)
	level := slog.LevelInfo
	if s.who.name == "" {
		level = slog.LevelDebug // strangers must not fill the log
	}
	if log := s.gate.env.Log; log.Enabled(s.gate.Base, level) {
		log.LogAttrs(s.gate.Base, level, "refused", slog.String("session", s.conn.id),
			slog.String("source", s.conn.source.String()), slog.String("user", s.who.name),
			slog.String("refused", n.how), slog.Int("code", n.reply.code), slog.String("why", n.reply.text))
	}
	s.deny(n)
}

// deny sends a refusal. After too many, or after a 421, the session ends.
func (s *session) deny(n *no) {
	if n.bound != "" {
		s.gate.env.Observer.Bounded(n.bound)
	}
	if n.cause != nil { // a full disk would fill the log
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

// early answers a command that depends on one that was refused. It does not count as an error, since clients pipeline
// (RFC 2920 section 3.1).
func (s *session) early(text string) { s.answer(reply(503, 551, text)) }

// fresh is how long a user of the store is remembered. A change, such as disabling the user, then also holds in open
// sessions.
const fresh = 10 * time.Second

// refresh asks the store about the user, who must not be a stranger.
func (s *session) refresh(ctx context.Context) *no {
	now := s.now()
	if !s.who.asked.IsZero() && now.Sub(s.who.asked) < fresh {
		return nil
	}
	// Servers that send without AUTH often have a session for each mail.
	if !s.who.authenticated && s.gate.clients.find(&s.who, now) {
		return nil
	}
	user, err := s.gate.env.Spool.Account(ctx, s.who.name)
	if err != nil {
		return &no{how: MailFailed, reply: reply(451, 430, "the user cannot be looked up, try again later"), cause: err}
	}
	if user.Made.IsZero() && s.who.authenticated && (s.setup.opts.Auth == AuthUsers || s.setup.opts.KnownOnly) {
		return refuse(MailStranger, 550, 571, "there is no such user any more")
	}
	if s.who.authenticated && s.setup.opts.Auth == AuthUsers && user.Password != s.who.user.Password {
		s.who = identity{} // the old password may have been stolen
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

// clients are those that are known by their addresses, and that the store was asked about of late.
type clients struct {
	mu   sync.Mutex
	seen map[string]identity
}

// maxClients is how many are remembered. Then all are forgotten.
const maxClients = 4096

// find completes an identity, and reports whether it is remembered.
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

// maySend reports whether the user may send from an address.
func (s *session) maySend(from address) bool {
	list := s.who.user.Senders
	if len(list) == 0 {
		return s.setup.opts.Senders == SendersAny
	}
	if from.local == "" {
		return false
	}
	return slices.ContainsFunc(list, func(sender string) bool {
		if domain, all := strings.CutPrefix(sender, "@"); all {
			return strings.EqualFold(domain, from.domain)
		}
		r, err := identify.Recipient(sender)
		return err == nil && r == from.normal()
	})
}

// ClientMark is before the name of a user, to tell it from the ids of clients of other gates.
const ClientMark = "mail:"

func (s *session) event(tx *transaction, recipients []string) weir.Event {
	// On the block list a user is a client, so that one can be banned without others at the same address.
	return weir.Event{Time: s.now(), Source: s.conn.source, Account: tx.who.name, Client: ClientMark + tx.who.name,
		Kind: KindMail, ID: s.conn.id, Cost: 1, Load: s.gate.load(),
		Message: &weir.Message{User: tx.who.name, Recipients: recipients}}
}

// reset gives up the transaction.
func (s *session) reset() {
	if s.arrival != nil {
		s.arrival.finish(errAborted)
	}
	s.settle()
}

// settle ends the transaction, and gives back what throttles hold for it.
func (s *session) settle() {
	s.texts = false
	s.conn.received()
	arrival, tx := s.arrival, s.tx
	s.arrival, s.tx = nil, nil
	if arrival != nil && arrival.staged != nil {
		arrival.staged.Discard()
	}
	if tx != nil {
		tx.settle(s.now(), false)
	}
}
