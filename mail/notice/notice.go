// Package notice writes notices to mail users, and reads their replies.
//
// Write writes a notice: a user is stopped or delayed, an admin is told, a command is answered. A Signer makes and
// reads the tickets with which the recipient of a notice can act on what it lists. ReadReply reads replies.
package notice

import (
	"errors"
	"time"

	"weir/internal/words"
	"weir/store"
)

// A Kind is what a notice tells.
type Kind uint8

// The kinds.
const (
	Stopped Kind = iota // the user is stopped
	Delayed             // messages of the user wait in the delay queue
	Admin               // tells the admin that a user is stopped
	Answer              // to a command by mail
	Review              // a message of the user is held until somebody has looked at it
	Barred              // an operator stopped the user, who cannot resume

	Flagged      // the user writes to many new people; Text says what happened
	AdminFlagged // tells the admin that a user is flagged

	Reminder      // messages of the user are still held
	AdminReminder // tells the admin that messages of a user without a contact are still held

	Link // the user has asked for a link

	Moved // the contact has changed: tells the old one
)

// A Notice is what a user is told. Write cleans the texts in it that come from messages.
type Notice struct {
	Kind       Kind
	Language   *words.Language // of the user; nil: English
	From       string          // header From, an address: the command address, or the postmaster's if there is none
	ReplyTo    string          // the command address with the ticket in it; empty: there are no commands by mail
	To         string
	Host       string
	MessageID  string // without angle brackets; empty: a random one
	InReplyTo  string
	Subject    string // Answer: of the message that is answered; empty: our own
	Now        time.Time
	User       string
	Link       string        // to the page; empty: there is none
	Until      time.Time     // until when ticket and link are good
	Recipients               // who wait, by why they do
	Limit      int           // how many may wait; 0: not told
	List       []Line        // numbered from 1 in this order; at most MaxLines are shown
	More       int           // how many wait besides
	Since      time.Time     // Reminder: when the oldest message came
	Expire     time.Duration // after how long what is held is given up; 0: never
	CanResume  bool          // the user is stopped, and may let themselves send again
	Elsewhere  Elsewhere     // what became of messages that were too much, where weir does not keep them
	Over       Over          // Flagged: what holds for the user
	Rate       string        // Flagged, with Rationed: how much they may send
	Forever    bool          // Flagged: an operator did it, and only an operator ends it
	Untold     bool          // Admin: the user has no contact, and was not told
	Unknown    bool          // Admin: weir knows nothing of the user but the name
	Password   bool          // weir has the password of the user
	Resume     time.Time     // Stopped: when the user may send again by itself; zero: never
	// Answer: what was done. Barred and Admin: why, in the words of the operator. Flagged: what happened.
	Text string
}

// Recipients are how many recipients wait, by why they do.
type Recipients struct {
	Delayed int // leave by themselves
	Held    int // leave when somebody releases them
	New     int // the same; the user never wrote to them before
}

// All is how many wait.
func (r *Recipients) All() int { return r.Delayed + r.Held + r.New }

// decided is how many wait for a decision.
func (r *Recipients) decided() int { return r.Held + r.New }

// Elsewhere says what another server does with messages that were too much.
type Elsewhere uint8

// What it does.
const (
	Here     Elsewhere = iota // nothing: weir keeps them
	OnHold                    // it has them in its hold queue
	PutOff                    // it did not take them, and the sender tries again
	Declined                  // it refused them
)

// Text says it to the user. It is empty for Here.
func (e Elsewhere) Text() words.Text { return elsewhere[e] }

var elsewhere = map[Elsewhere]words.Text{
	OnHold: "What was too much is in the hold queue of the mail server. Those who run it can release it or delete it.",
	PutOff: "What was too much was not taken. Your mail program, or the server that sent it for you, may try again " +
		"later.",
	Declined: "What was too much was refused: your mail program has told you what.",
}

// Over says what holds for a flagged user.
type Over uint8

// What holds.
const (
	NewOnHold  Over = iota // mail to new recipients is held
	NewRefused             // it is refused
	Rationed               // so much mail is taken
	Blocked                // none is
)

// A Line is one message that waits, with its recipients by why they do.
type Line struct {
	ID      store.MailID
	At      time.Time
	Subject string
	Size    int64

	Delayed, Held, New []string
}

// Bounds.
const (
	MaxLines = 100 // messages that a notice lists

	maxShown   = 3    // recipients of a message that are named
	maxSubject = 100  // characters
	maxAddress = 80   // characters of a recipient
	maxName    = 255  // characters of users, hosts and ids
	maxText    = 200  // lines of an answer
	maxLink    = 2000 // characters
)

// Errors of tickets and commands.
var (
	ErrForged  = errors.New("notice: not genuine")
	ErrOld     = errors.New("notice: out of date")
	ErrAuto    = errors.New("notice: written by a machine")
	ErrNothing = errors.New("notice: says nothing to do")
	ErrLarge   = errors.New("notice: the reply is too long")
	ErrMail    = errors.New("notice: not a mail that can be read")
)

// ErrInvalid is returned by Write for a notice that cannot be sent.
var ErrInvalid = errors.New("notice: cannot be written")
