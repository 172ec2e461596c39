package spool

import (
	"errors"
	"net/netip"
	"time"

	"weir/store"
)

// Errors of Accept and Decide. Others come from the store.
var (
	ErrStopped    = errors.New("spool: the user is stopped")
	ErrRecipients = errors.New("spool: too many recipients")
	ErrUnknown    = errors.New("spool: no such gate")
	ErrClosing    = errors.New("spool: closing")
	ErrNulls      = errors.New("spool: as many messages without a sender as may pass uncounted")
	ErrUnpaid     = errors.New("spool: a stamp is required, and was spent before")
)

// ErrQueue is returned by Accept if the delay queue of the user is full. It is worth trying again later.
var ErrQueue = errors.New("spool: as many recipients of the user wait as may")

// An Envelope is a message that a gate has received.
type Envelope struct {
	ID       store.MailID // from NewID
	Gate     string
	User     string // the authenticated name, or else the address of the client
	Sender   string
	Subject  string
	Source   netip.Addr
	UTF8     bool
	EightBit bool
	Return   string
	Envelope string
	To       []To

	// Another server has taken the message, and would keep it if it were refused: that of a stopped user is held.
	Diverted bool
}

// To is one recipient of an envelope.
type To struct {
	Address  string
	Notify   string
	Original string
	Stamp    Stamp     // pays for this recipient; the zero value: none
	Pooled   bool      // the gate is over its load: waits in the general pool unless paid for
	Required bool      // the message is refused unless this recipient is paid for
	After    time.Time // when another throttle lets it go on; zero: now
}

// A Stamp is one that the gate has found valid. Accept spends it with the message. If another message has spent it in
// the meantime, the recipient is not paid for. Addresses that differ only in case share a stamp.
type Stamp = store.Stamp

// A Receipt says what became of a message.
type Receipt struct {
	Paid    int // recipients whose stamps were spent
	Passed  int // recipients that go on at once
	Delayed int
	Held    int
	Pooled  int
	Stopped bool // the user has just been stopped by it

	Withheld int // new to a flagged user: they wait for a review

	Shadow      bool // the throttle only counts
	WouldWait   int  // recipients that would wait
	WouldRefuse int  // recipients that would be refused
	WouldStop   bool // the user would be stopped
}

func (e *Envelope) message(now time.Time) store.Letter {
	return store.Letter{ID: e.ID, Gate: e.Gate, User: e.User, Sender: e.Sender,
		Subject: cut(e.Subject, store.MaxSubject), Source: e.Source,
		Received: now, UTF8: e.UTF8, EightBit: e.EightBit, Return: e.Return, Envelope: e.Envelope}
}

func (e *Envelope) addressees() []store.Addressee {
	all := make([]store.Addressee, len(e.To))
	for i, to := range e.To {
		all[i] = store.Addressee{Mail: e.ID, Number: i, Address: to.Address, Notify: to.Notify, Original: to.Original}
	}
	return all
}
