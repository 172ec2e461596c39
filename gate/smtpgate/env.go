package smtpgate

import (
	"context"
	"errors"
	"io"
	"time"

	"weir"
	"weir/gate"
	"weir/internal/turns"
	"weir/mail/login"
	"weir/mail/spool"
	"weir/policy"
	"weir/store"
)

// An Env is what a gate needs of its surroundings, for as long as it lives. Name and Spool are needed, and a Door with
// a Verifier if weir has the passwords. The zero value of the others keeps the machine's time, and neither logs nor
// observes.
type Env struct {
	gate.Env
	Name     string // by which the spool knows the gate
	Observer Observer
	Spool    Spool
	// Door lets users in. Gates that share Parts.UserGuesses share it. Default: one of its own, without a Verifier.
	Door *login.Door
	// Commands carries out a message to the command address: the detail of the address, and the beginning of the text.
	// nil: there are no commands by mail.
	Commands func(ctx context.Context, now time.Time, ticket string, text io.Reader) error
	// TakeStamps removes the stamps from a header, even if stamps are off: they would reveal recipients in Bcc.
	TakeStamps func(header []byte) (stamps []string, rest []byte)
	// Marks returns the secrets of marks, for a gate that takes them.
	Marks func() [][]byte
	// Offend is told of clients that belong on the block list.
	Offend func(ev *weir.Event, a *weir.Answer)
}

// Parts are what a gate is wired with. A reload may replace them. What is nil is off.
type Parts struct {
	Accept       *policy.Chain // judges each connection before anything is read from it
	Throttles    *policy.Chain // judges each message
	PerRecipient *policy.Chain // judges each recipient
	Guesses      weir.Throttle // limits wrong passwords by source, of strangers; see login.Door
	UserGuesses  weir.Throttle // limits wrong passwords by user, from all sources but the user's own
	Relay        Relay         // has the passwords, with auth: next_hop
	Stamps       Stamps
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
	Account(ctx context.Context, name string) (store.User, error)
	Load(gate string) float64
}

var _ Spool = (*spool.Spool)(nil)

// A Relay asks the next hop whether a password is right. It returns login.ErrWrong, login.ErrBusy or another error.
type Relay interface {
	Auth(ctx context.Context, rank turns.Rank, name, password string) error
}

// Stamps pay for messages.
type Stamps interface {
	// Announce returns a line for the answer to EHLO: how a stamp is made now, under a load.
	Announce(now time.Time, load weir.Share) string
	// Digest returns a digest that makes the id of a body, to which stamps are bound.
	Digest() Digest
	// Verify looks for a valid stamp for each recipient, in the form of identify.Recipient. Without one it is the zero
	// value. It spends nothing: the spool does, with the message. forged tells that a stamp was not genuine or wrongly
	// solved.
	Verify(ctx context.Context, now time.Time, load weir.Share, stamps []string, bodyID string,
		recipients []string) (good []spool.Stamp, forged bool)
}

// A Digest is given a body in pieces.
type Digest interface {
	io.Writer
	ID() string
}

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block.
// Connections that a door turns away are counted by its throttles.
type Observer interface {
	// Sessions: so many more, or fewer, are open.
	Sessions(delta int)
	// Waiting: so many more, or fewer, answers are held back because a throttle makes a message wait in line.
	Waiting(delta int)
	// LogIn: a login ended, with one of the LogIn names.
	LogIn(how string)
	// Mail: a message of a user whose text came in got one of the Mail names.
	Mail(how, user string, bytes int64, recipients int)
	// Refused: a sender or a recipient was refused, with one of the Mail names. The user is empty for strangers.
	Refused(how, user string)
	// Bounded: something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// Results of logins.
const (
	LogInRight    = "ok"
	LogInWrong    = "wrong"
	LogInBusy     = "busy"     // too many are being verified
	LogInGuessing = "guessing" // too many wrong ones from this network, or for this user
	LogInStopped  = "stopped"
	LogInDisabled = "disabled"
	LogInFailed   = "failed" // it could not be verified
)

// What happens to messages, senders and recipients.
const (
	MailAccepted  = "accepted"
	MailCommand   = "command"   // to the command address, and carried out
	MailThrottled = "throttled" // a throttle refused it
	MailStopped   = "stopped"   // the user is stopped
	MailFlagged   = "flagged"   // the user is flagged, and the recipient new or the user blocked
	MailStranger  = "stranger"  // the client may not send
	MailSender    = "sender"    // the user may not send from this address
	MailMalformed = "malformed"
	MailTooLarge  = "too-large"
	MailLoop      = "loop"   // it goes round in a circle
	MailStamp     = "stamp"  // its stamps are forged, or missing although required
	MailFull      = "full"   // there is no space to store it
	MailFailed    = "failed" // it could not be judged or stored
	MailAborted   = "aborted"
)

// The bounds.
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

// BoundNames are the bounds that an Observer may be told.
var BoundNames = [...]string{BoundSessions, BoundPerSource, BoundRecipients, BoundMessage, BoundHeader, BoundLine,
	BoundErrors, BoundLogins, BoundCommands, BoundTime, BoundWait}

func (e Env) withDefaults() (Env, error) {
	if e.Name == "" || e.Spool == nil {
		return e, errors.New("a gate for mail needs a name and a spool")
	}
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	if e.Door == nil {
		e.Door = new(login.Door)
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

func (nobody) Sessions(int)                    {}
func (nobody) Waiting(int)                     {}
func (nobody) LogIn(string)                    {}
func (nobody) Mail(string, string, int64, int) {}
func (nobody) Refused(string, string)          {}
func (nobody) Bounded(string)                  {}
