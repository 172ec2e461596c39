package console

import (
	"context"
	"errors"
	"time"

	"weir/store"
)

// A Desk is what mail users see of their mail and may do with it. It is safe for concurrent use. A ticket is the secret
// part of a link; one that is not genuine is found out before anything costly is done. Besides the errors below it may
// return an *Error, whose text the user reads.
type Desk interface {
	// Page returns what the holder of a ticket sees: at most MaxPageMails mails of their own, the oldest first.
	Page(ctx context.Context, ticket string) (PageView, error)
	// Act does what the user wants, all of it or nothing, and once for each form: ErrTwice where something was done by
	// this form before. The form is the one of the PageView that they saw. Mails that are not theirs, or are gone, are
	// passed over.
	Act(ctx context.Context, ticket, form string, c Command) (Outcome, error)
	// ChangePassword and ChangeContact return ErrPassword where the current password is wrong.
	ChangePassword(ctx context.Context, ticket, old, new string) error
	ChangeContact(ctx context.Context, ticket, password, contact string) error
	// StampParams is how stamps for mail are made now, as programs read it; nil where no gate takes any.
	StampParams() []byte
}

// Errors of a Desk.
var (
	ErrForged   = errors.New("the ticket is not genuine")
	ErrOld      = errors.New("the ticket is out of date")
	ErrTwice    = errors.New("this was done before")
	ErrPassword = errors.New("the password is wrong")
	ErrLate     = errors.New("too many wrong passwords: not looked at")
)

// MaxPageMails is how many mails a page lists.
const MaxPageMails = 500

// A PageView is what a user sees.
type PageView struct {
	User    string
	Contact string    // where notices go; empty: nowhere
	LogIn   bool      // they have a password, so that they can change it
	Stopped bool      // may not send
	Since   time.Time // when; zero where nobody knows
	Resume  time.Time // when they are tried again by itself; zero for never
	Until   time.Time // until when the link is good
	Waiting int       // recipients
	Limit   int       // how many may wait before the user is stopped
	Mails   []PageMail
	More    int // mails that are not listed, at least

	ByOperator bool // an operator stopped them, who alone can let them go on
}

// A PageMail is a mail that waits.
type PageMail struct {
	ID      store.MailID
	At      time.Time
	To      []string // who has not got it yet; at most MaxPageRecipients of them
	More    int      // how many there are besides
	Subject string
	Size    int64
	Held    bool // until somebody releases it
	// it is withheld from somebody new to the user, until somebody releases it; delayed where it is neither
	New bool
}

// MaxPageRecipients is how many recipients of a mail a page lists.
const MaxPageRecipients = 100

// A Command is what a user wants done.
type Command struct {
	ReleaseAll bool
	DeleteAll  bool
	UpTo       store.MailID // all: of those that came no later than this one, the last that they saw
	Resume     bool
	Release    []store.MailID
	Delete     []store.MailID
}

// An Outcome is what was done.
type Outcome struct {
	Released int  // recipients whose mail is on its way
	Deleted  int  // recipients who will not get it
	Resumed  bool // they may send again
}
