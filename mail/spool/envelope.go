package spool

import (
	"errors"
	"net/netip"
	"time"

	"weir/store"
)

// Errors of Accept and Decide. What else they return comes from the store.
var (
	ErrStopped    = errors.New("spool: the user is stopped")
	ErrRecipients = errors.New("spool: too many recipients")
	ErrUnknown    = errors.New("spool: no such gate")
	ErrClosing    = errors.New("spool: closing")
	ErrNulls      = errors.New("spool: as many messages without a sender as may pass uncounted")
	ErrUnpaid     = errors.New("spool: a stamp is required, and was spent before")
)

// ErrQueue is returned by Accept where the delay queue of the user is full: later it may not be.
var ErrQueue = errors.New("spool: as many recipients of the user wait as may")

// An Envelope is a mail that a gate has received.
type Envelope struct {
	ID       store.MailID // from NewID
	Gate     string
	User     string // the authenticated name, or the address of the client where there is none
	Sender   string
	Subject  string
	Source   netip.Addr
	UTF8     bool
	EightBit bool
	Return   string
	Envelope string
	To       []To

	// Another server has taken the mail, and would keep what is refused: what a stopped user has sent is held.
	Diverted bool
}

// To is one recipient of an envelope.
type To struct {
	Address  string
	Notify   string
	Original string
	Stamp    Stamp     // that pays for this recipient; the zero value: nothing
	Pooled   bool      // the gate is over its load: waits in the general pool unless paid for
	Required bool      // the mail is refused unless this recipient is paid for
	After    time.Time // another throttle lets it go on from then on; zero: now
}

// A Stamp is one that the gate has found good. Accept spends it with the mail. A recipient whose stamp another mail has
// spent in the meantime is not paid for. Addresses that differ only in case share a stamp.
type Stamp = store.Stamp

// A Receipt says what became of a mail.
type Receipt struct {
	Paid    int // recipients whose stamps were spent
	Passed  int // recipients that go on at once
	Delayed int
	Held    int
	Pooled  int
	Stopped bool // the user has just been stopped by it

	Withheld int // new to a flagged user: they wait for a review

	Shadow      bool // the throttle only counts:
	WouldWait   int  // so many recipients would wait
	WouldRefuse int  // … or be refused
	WouldStop   bool // … and the user would be stopped
}

func (e *Envelope) letter(now time.Time) store.Letter {
	return store.Letter{ID: e.ID, Gate: e.Gate, User: e.User, Sender: e.Sender,
		Subject: cut(e.Subject, store.MaxSubject), Source: e.Source,
		Received: now, UTF8: e.UTF8, EightBit: e.EightBit, Return: e.Return, Envelope: e.Envelope}
}

func (e *Envelope) addressee(i int) store.Addressee {
	return store.Addressee{Mail: e.ID, Number: i, Address: e.To[i].Address, Notify: e.To[i].Notify,
		Original: e.To[i].Original}
}
