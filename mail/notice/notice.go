// Package notice writes what mail users are told, and reads what they answer.
//
// Write makes the mails: a user is stopped or delayed, an admin is told, a command is answered. A Signer makes and
// reads the tickets that let whoever got a notice act on what it lists, and ReadReply reads their answers.
package notice

import (
	"errors"
	"time"

	"weir/store"
)

// A Kind is what a notice tells.
type Kind uint8

// The kinds.
const (
	Stopped Kind = iota // the user is stopped
	Delayed             // mail of the user waits in the delay queue
	Admin               // the admin is told that a user is stopped
	Answer              // to a command by mail
	Review              // a mail of the user is held until somebody has looked at it
	Barred              // an operator stopped the user, who cannot resume

	Flagged      // the user writes to many new people, and Text says what holds now
	AdminFlagged // the admin is told so
)

// A Notice is what a user is told. Write makes a mail of it, and what comes from mails harmless.
type Notice struct {
	Kind Kind
	From string // header From, an address: the command address where there is one, else the postmaster's
	// where a command is sent: the command address with the ticket in it; empty: commands by mail are off
	ReplyTo   string
	To        string
	Host      string
	MessageID string // without angle brackets; empty: one by chance
	InReplyTo string
	Subject   string // Answer: of the mail that is answered; empty: our own
	Now       time.Time
	User      string
	Link      string    // to the page; empty: there is none
	Until     time.Time // until when ticket and link are good
	Waiting   int       // recipients
	Limit     int       // how many may wait; 0: not told
	Letters   []Line    // what is held, numbered from 1 in this order; at most MaxLines are shown
	More      int       // how many there are besides
	// Answer: what was done; Barred and Admin: why, in the words of the operator who did it; Flagged: what happened
	Text string
}

// A Line is one held mail.
type Line struct {
	ID      store.MailID
	At      time.Time
	To      []string
	Subject string
	Size    int64
}

// Bounds.
const (
	MaxLines = 100 // mails that a notice lists

	maxShown   = 3    // recipients of a mail that are named
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

// ErrInvalid is what Write says of a notice that would be no mail.
var ErrInvalid = errors.New("notice: cannot be written")
