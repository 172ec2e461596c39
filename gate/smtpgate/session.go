package smtpgate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"weir"
	"weir/identify"
	"weir/store"
)

// A session is what one client does after its EHLO, until it leaves or encrypts. go-smtp calls it from one goroutine, except that Data for
// BDAT has its own, which may outlive the transaction that it belongs to.
type session struct {
	gate  *Gate
	setup *setup
	conn  *conn
	smtp  *smtp.Conn
	tls   bool
	who   identity // of those who read commands; a transaction has a copy

	mu sync.Mutex
	tx *transaction // nil: none is under way, or its text has come
}

var (
	_ smtp.Session     = (*session)(nil)
	_ smtp.AuthSession = (*session)(nil)
)

// An identity is who sends: an authenticated user, or a client that may send without, by its address. The zero value is a stranger.
type identity struct {
	name          string
	authenticated bool
	user          store.User // of the store, where it has one
	asked         time.Time  // when the store was asked
}

// newSession is called at the first EHLO, and at the first one after STARTTLS.
func (g *Gate) newSession(sc *smtp.Conn) (smtp.Session, error) {
	c, encrypted := unwrap(sc)
	if c == nil {
		return nil, reply(421, 430, "not a connection of this server")
	}
	c.speaks(sc.Conn())
	s := &session{gate: g, setup: c.setup, conn: c, smtp: sc, tls: encrypted}
	s.who.name = s.setup.freeUser(c.source)
	c.free.Store(s.who.name != "")
	return s, nil
}

// unwrap returns the connection below go-smtp's, and whether TLS is in between.
func unwrap(sc *smtp.Conn) (c *conn, encrypted bool) {
	whole := sc.Conn()
	if below, ok := whole.(interface{ NetConn() net.Conn }); ok {
		whole, encrypted = below.NetConn(), true
	}
	c, _ = whole.(*conn)
	return c, encrypted
}

// now is the time by the gate's clock.
func (s *session) now() time.Time { return s.gate.env.Clock.Now() }

// say counts a refusal and returns the answer to give. After too many, or on a last word, the session ends.
func (s *session) say(n *no) error {
	s.gate.env.Observer.Refused(n.how)
	level := slog.LevelInfo
	if s.who.name == "" {
		level = slog.LevelDebug // strangers must not fill the log
	}
	if log := s.gate.env.Log; log.Enabled(s.gate.base, level) {
		log.LogAttrs(s.gate.base, level, "refused", slog.String("session", s.conn.id), slog.String("source", s.conn.source.String()),
			slog.String("user", s.who.name), slog.String("refused", n.how), slog.Int("code", n.reply.Code), slog.String("why", n.reply.Message))
	}
	return s.count(n)
}

func (s *session) count(n *no) error {
	if n.bound != "" {
		s.gate.env.Observer.Bounded(n.bound)
	}
	if g := s.gate; n.cause != nil && g.env.Log.Enabled(g.base, slog.LevelWarn) {
		if more, ok := g.untaken.Now(s.now().Sub(g.began)); ok { // a full disk fails every mail
			g.env.Log.Warn("mail could not be taken", "session", s.conn.id, "error", n.cause, "unlogged_before", more)
		}
	}
	if s.conn.errors.Add(1) >= int64(s.setup.opts.Bounds.Errors) {
		return s.last(BoundErrors, "too many errors in one session")
	}
	if n.reply.Code == 421 {
		s.conn.last.Store(true)
	}
	return n.reply
}

// last makes an answer the last one of the session.
func (s *session) last(bound, text string) error {
	s.gate.env.Observer.Bounded(bound)
	s.conn.last.Store(true)
	return reply(421, 470, text)
}

// leaving is what commands are told that were pipelined behind the last answer.
func (s *session) leaving() error {
	if s.conn.last.Load() {
		return reply(421, 470, "the session is over")
	}
	return nil
}

// fresh is how old what is known of a user may be: a user who is disabled, or bound to other senders, feels it in open sessions, too.
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

// clients are those known by their addresses of whom the store was asked of late.
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

// clientMark stands before the name of a user where clients of other gates have ids too.
const clientMark = "mail:"

// event is what the throttles are asked about.
func (s *session) event(tx *transaction, recipients []string) weir.Event {
	// On the invalid list a user is a client, so that he can be put there without those who share his address.
	return weir.Event{Time: s.now(), Source: s.conn.source, Account: tx.who.name, Client: clientMark + tx.who.name, Kind: KindMail, ID: s.conn.id, Cost: 1, Load: s.gate.load(),
		Message: &weir.Message{User: tx.who.name, Recipients: recipients}}
}

// Reset gives up the transaction under way, unless its text is coming in: then Data finds out by itself.
func (s *session) Reset() {
	if tx := s.take(nil); tx != nil {
		tx.settle(s.now(), false)
	}
}

// Logout ends the session: the client leaves, or encrypts and begins anew.
func (s *session) Logout() error {
	s.Reset()
	s.conn.speaks(nil)
	return nil
}

// take puts another transaction in the place of the one under way, and returns that one.
func (s *session) take(next *transaction) *transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := s.tx
	s.tx = next
	return tx
}

// current is the transaction under way.
func (s *session) current() *transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tx
}
