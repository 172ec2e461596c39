package smtpgate

import (
	"context"
	"errors"
	"io"
	"time"

	"weir"
	"weir/gate"
	"weir/mail/login"
	"weir/mail/spool"
	"weir/policy"
	"weir/store"
)

// An Env is what a gate needs of its surroundings, for as long as it lives. Name and Spool are needed, and Logins where
// weir knows the passwords. The zero value of the others keeps the machine's time, and neither logs nor observes.
type Env struct {
	gate.Env
	Name     string // by which the spool knows the gate
	Observer Observer
	Spool    Spool
	Logins   Logins
	// Guard makes those wait for each other who guess passwords. Gates that share Parts.UserGuesses share it; one of
	// its own where it is nil.
	Guard *login.Guard
	// Commands is given the mails that come to the command address: the detail of the address, and the beginning of the
	// text. A nil error means that it has been seen to. nil: there are no commands by mail.
	Commands func(ctx context.Context, now time.Time, ticket string, text io.Reader) error
	// TakeStamps takes the stamps out of a header: they would tell who was in Bcc, so they go where stamps are off,
	// too.
	TakeStamps func(header []byte) (stamps []string, rest []byte)
	// Marks returns the secrets with which marks are made, for a gate that takes them.
	Marks func() [][]byte
	// Offend is told of whoever belongs on the invalid list.
	Offend func(ev *weir.Event, a *weir.Answer)
}

// Parts are what a gate is wired with, which may be others after a reload. What is nil is off.
type Parts struct {
	Accept       *policy.Chain // judges each connection before anything is read from it
	Throttles    *policy.Chain // judges each mail
	PerRecipient *policy.Chain // judges each recipient
	// limits wrong passwords by source: charged before one is verified, and given back where it was right
	Guesses     weir.Throttle
	UserGuesses weir.Throttle // the same by user, from wherever they come
	Relay       Relay         // knows the passwords, with auth: next_hop
	Stamps      Stamps
}

// A Spool keeps mail. *spool.Spool is one.
type Spool interface {
	NewID(now time.Time) store.MailID
	Stage() store.Staged
	Accept(ctx context.Context, now time.Time, e *spool.Envelope, text store.Staged) (spool.Receipt, error)
	Stopped(gate, user string) bool
	// Flagged reports whether a user may be flagged, from memory, and Reaches whether a flagged one may write to a
	// recipient.
	Flagged(gate, user string) bool
	Reaches(ctx context.Context, now time.Time, gate, user, sender, recipient string) error
	Free(gate string, user *store.User, recipient string) bool
	User(ctx context.Context, name string) (store.User, error)
	Load(gate string) float64
}

var _ Spool = (*spool.Spool)(nil)

// Logins verify passwords. *login.Desk does.
type Logins interface {
	Verify(ctx context.Context, name, stored, password string) error
	// Remembered reports, at next to no cost, whether a password was right of late, and Remember notes one that
	// somebody else verified.
	Remembered(name, stored, password string) bool
	Remember(name, stored, password string)
}

var _ Logins = (*login.Desk)(nil)

// A Relay asks the next hop whether a password is right. It returns login.ErrWrong, login.ErrBusy, or what went wrong.
type Relay interface {
	Auth(ctx context.Context, name, password string) error
}

// Stamps are what mail is paid with.
type Stamps interface {
	// Announce returns a line for the answer to EHLO: how a stamp is to be made now, under a load.
	Announce(now time.Time, load weir.Share) string
	// Digest returns what makes the id of a body that stamps are bound to.
	Digest() Digest
	// Verify looks for a good stamp for each recipient, given as identify.Recipient writes them: the zero value where
	// there is none. It spends nothing; the spool does, with the mail. forged tells that one was not genuine, or
	// wrongly solved, and busy that nobody had the time to look at one.
	Verify(ctx context.Context, now time.Time, load weir.Share, stamps []string, bodyID string,
		recipients []string) (good []spool.Stamp, forged, busy bool)
}

// A Digest is given a body in pieces.
type Digest interface {
	io.Writer
	ID() string
}

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block. What a
// door turns away is in the counts of its throttles.
type Observer interface {
	// Sessions tells that so many more, or fewer, sessions are open.
	Sessions(delta int)
	// Waiting tells that so many more, or fewer, answers are held back because a throttle makes a mail stand in line.
	Waiting(delta int)
	// LogIn tells how a log-in ended, by one of the LogIn names.
	LogIn(how string)
	// Mail tells what became of a mail whose text came in, by one of the Mail names, how large it was, and how many
	// recipients it had.
	Mail(how string, bytes int64, recipients int)
	// Refused tells that a sender or a recipient was refused, by one of the Mail names.
	Refused(how string)
	// Bounded tells that something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// What Observer.LogIn is told.
const (
	LogInRight    = "ok"
	LogInWrong    = "wrong"
	LogInBusy     = "busy"     // as many as can be verified at once are being verified
	LogInGuessing = "guessing" // not verified: too many wrong ones came from there, or for this user
	LogInStopped  = "stopped"
	LogInDisabled = "disabled"
	LogInFailed   = "failed" // nobody could say
)

// What Observer.Mail and Observer.Refused are told.
const (
	MailAccepted  = "accepted"
	MailCommand   = "command"   // to the command address, and seen to
	MailThrottled = "throttled" // a throttle said no
	MailStopped   = "stopped"   // the user is
	MailFlagged   = "flagged"   // the user is, and the recipient is new to them, or they are blocked
	MailStranger  = "stranger"  // nobody who may send
	MailSender    = "sender"    // not an address that the user may send from
	MailMalformed = "malformed"
	MailTooLarge  = "too-large"
	MailLoop      = "loop"   // it goes round in a circle
	MailStamp     = "stamp"  // its stamps are forged, or missing where they are required
	MailFull      = "full"   // there is no room to store it
	MailFailed    = "failed" // it could not be stored, or nobody could say
	MailAborted   = "aborted"
)

// What Observer.Bounded is told.
const (
	BoundSessions   = "sessions"
	BoundPerSource  = "per-source"
	BoundRecipients = "recipients"
	BoundMessage    = "message"
	BoundHeader     = "header"
	BoundLine       = "line"
	BoundErrors     = "errors"
	BoundLogins     = "logins"
	BoundCommands   = "commands"
	BoundTime       = "time" // idle, or too slow
	BoundWait       = "wait" // an answer could not be held back any longer
)

// The names that an Observer may be told.
var (
	LogInNames = [...]string{LogInRight, LogInWrong, LogInBusy, LogInGuessing, LogInStopped, LogInDisabled, LogInFailed}
	MailNames  = [...]string{MailAccepted, MailCommand, MailThrottled, MailStopped, MailFlagged, MailStranger,
		MailSender, MailMalformed, MailTooLarge, MailLoop,
		MailStamp, MailFull, MailFailed, MailAborted}
	BoundNames = [...]string{BoundSessions, BoundPerSource, BoundRecipients, BoundMessage, BoundHeader, BoundLine,
		BoundErrors, BoundLogins, BoundCommands,
		BoundTime, BoundWait}
)

func (e Env) withDefaults() (Env, error) {
	if e.Name == "" || e.Spool == nil {
		return e, errors.New("a gate for mail needs a name and a spool")
	}
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	if e.Guard == nil {
		e.Guard = new(login.Guard)
	}
	if e.Offend == nil {
		e.Offend = func(*weir.Event, *weir.Answer) {}
	}
	if e.Marks == nil {
		e.Marks = func() [][]byte { return nil }
	}
	if e.TakeStamps == nil {
		e.TakeStamps = func(header []byte) ([]string, []byte) { return nil, header }
	}
	return e, nil
}

type nobody struct{}

func (nobody) Sessions(int)            {}
func (nobody) Waiting(int)             {}
func (nobody) LogIn(string)            {}
func (nobody) Mail(string, int64, int) {}
func (nobody) Refused(string)          {}
func (nobody) Bounded(string)          {}
