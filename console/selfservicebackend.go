package console

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"weir/internal/words"
	"weir/store"
)

// A SelfServiceBackend lets mail users see and act on their own mail. It is safe for concurrent use. A ticket is the
// secret part of a link; a forged one is rejected before any costly work. Besides the errors below a SelfServiceBackend
// may return an *Error, whose text the user reads.
type SelfServiceBackend interface {
	// Page returns what the holder of a ticket sees: at most MaxPageMails messages of their own, the oldest first.
	Page(ctx context.Context, ticket string) (PageView, error)
	// Act carries out a command, all of it or nothing, and once for each form: it returns ErrTwice for a form that was
	// used before. Messages that are gone, or of other users, are skipped.
	Act(ctx context.Context, ticket, form string, c Command) (Outcome, error)
	// ChangePassword and ChangeContact return ErrPassword where the current password is wrong.
	ChangePassword(ctx context.Context, ticket, old, new string) error
	ChangeContact(ctx context.Context, ticket, password, contact string) error
	// ChangeLanguage sets the language that notices and the page are written in; empty for the usual one.
	ChangeLanguage(ctx context.Context, ticket, language string) error
	// LogsIn reports whether users can log in with their passwords.
	LogsIn() bool
	// LogIn begins a session of a user with their mail password. It returns ErrPassword for a wrong name or password,
	// ErrLate, ErrBusy, ErrNoEntry, and ErrNoLogIn where LogsIn is false. Time and answer do not tell whether there is
	// such a user. from is where they are; invalid where that is not known.
	LogIn(ctx context.Context, from netip.Addr, name, password string) (Session, error)
	// Look returns what a user sees in a session that is for looking only.
	Look(ctx context.Context, ticket string) (PageView, error)
	// SendLink sends the user of such a session a link to act with, at their contact, and reports whether there is
	// one.
	SendLink(ctx context.Context, ticket string) (bool, error)
	// LogOut ends such a session.
	LogOut(ctx context.Context, ticket string) error
	// StampParams returns the parameters of mail stamps, as programs read them; nil if no gate takes stamps.
	StampParams() []byte
}

// A Session is what a login with a password begins.
type Session struct {
	Ticket string
	Act    bool // it is as good as a link in a notice; else it is for Look
}

// Errors of a SelfServiceBackend.
var (
	ErrNoLogIn  = errors.New("nobody can log in with a password")
	ErrNoEntry  = errors.New("the password is right, but the user is not known")
	ErrBusy     = errors.New("too many log in at once")
	ErrForged   = errors.New("the ticket is not genuine")
	ErrOld      = errors.New("the ticket is out of date")
	ErrTwice    = errors.New("this was done before")
	ErrPassword = errors.New("the password is wrong")
	ErrLate     = errors.New("too many wrong passwords: not looked at")
)

// MaxPageMails is how many messages a page lists.
const MaxPageMails = 500

// A PageView is what a user sees.
type PageView struct {
	User    string
	Contact string    // where notices go; empty: nowhere
	LogIn   bool      // they have a password, so that they can change it
	Known   bool      // they are a user of the store, so that they can choose a language
	Stopped bool      // may not send
	Since   time.Time // when; zero where nobody knows
	Resume  time.Time // when they are tried again by itself; zero for never
	Until   time.Time // until when the link is good
	Waiting int       // recipients
	Limit   int       // how many may wait before the user is stopped
	Mails   []PageMail
	More    int // mails that are not listed, at least

	Elsewhere  words.Text // what became of mail that was too much, where weir does not keep it; empty: weir does
	Language   string     // the one that they chose; empty for none
	ByOperator bool       // an operator stopped them, who alone can let them go on
}

// A PageMail is a message that waits.
type PageMail struct {
	ID      store.MailID
	At      time.Time
	To      []string // who has not got it yet; at most MaxPageRecipients of them
	More    int      // how many there are besides
	Subject string
	Size    int64
	Delayed bool // it leaves by itself
	Held    bool // until somebody releases it
	New     bool // a recipient is new to the user, and it is withheld until it is released
}

// MaxPageRecipients is how many recipients of a message a page lists.
const MaxPageRecipients = 100

// A Command is an order of a mail user.
type Command struct {
	ReleaseAll bool
	DeleteAll  bool
	UpTo       store.MailID // all: of those that came no later than this one, the last that they saw
	Resume     bool
	Release    []store.MailID
	Delete     []store.MailID
}

// An Outcome is the result of a Command.
type Outcome struct {
	Released int  // recipients whose mail is on its way
	Deleted  int  // recipients who will not get it
	Resumed  bool // they may send again
	Held     int  // recipients whose mail still waits for a decision
	Flagged  bool // something was released, and they are still flagged for writing to many new people
}
