package store

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Mail is the spool as it is kept: users, what their throttles remember and know of them, mails, which recipients they
// still have to reach, and what was done.
type Mail interface {
	// Update runs f in a transaction: all of it is safe when Update returns nil, and nothing of it is stored when it
	// returns an error. f may be run more than once, and other functions run in the same transaction. So f is quick,
	// changes nothing outside the transaction, and calls nothing else of the store. An error of f is returned as it is;
	// a panic of f is an error too. If a call of the MailTx failed halfway, Update fails even if f ignores that.
	//
	// Update returns after the last run of f, even if ctx ends before: f may use variables of the caller. If ctx ends
	// before f was first run, f is not run. After that ctx does not matter.
	Update(ctx context.Context, f func(MailTx) error) error
	// View runs f over what is committed, all of one moment. What f writes is refused with ErrInvalid.
	View(ctx context.Context, f func(MailTx) error) error

	// Stage takes the text of an incoming mail. A text longer than MaxInline is kept in a file.
	Stage() Staged
	// Open returns the text of a mail, or ErrNotFound.
	Open(ctx context.Context, id MailID) (io.ReadCloser, error)
	// Sweep clears away files that a crash has left: they belong to no mail, not even an incoming one, and were last
	// written before a time. A text that was not complete is removed. A complete one is set aside, since the store may
	// be a new one or an old copy; it is removed after KeepAside.
	Sweep(ctx context.Context, before time.Time) (Swept, error)

	// Backup writes a copy of the whole store, with bans and counters, to a folder that is empty or not there
	// (otherwise ErrExists). The copy is of one moment and can be opened as a store. Other calls go on meanwhile.
	// progress, which may be nil, is given bytes. After an error nothing is left in the folder.
	Backup(ctx context.Context, folder string, progress func(done, total int64)) error
}

// A Staged is the text of an incoming mail. It is for one goroutine.
type Staged interface {
	io.Writer
	// Size is how much was written.
	Size() int64
	// Note gives the envelope, before Seal. It is kept behind a text in a file, to bring the mail back if its row is
	// lost. It may be left out. Seal reads what it was given.
	Note(l *Message, to []Addressee)
	// Seal syncs the text to the disk and returns it for PutMessage. Nothing may be written after it.
	Seal() (Text, error)
	// Discard removes the text unless it belongs to a mail. It may be called at any time, even twice, but not while
	// PutMessage is under way. After PutMessage was committed it does nothing.
	Discard()
}

// A Text is the text of a mail: in the store itself, or in a file beside it.
type Text struct {
	Inline []byte
	File   string // its name; empty where Inline has it
	Size   int64
}

// A MailTx is a transaction. It ends with the function that it was given to, and is for one goroutine. Lists are in the
// order of their keys. A limit is MaxBatch at most.
type MailTx interface {
	// User returns a user, or ErrNotFound.
	User(name string) (User, error)
	// Users returns up to limit users whose names come after one.
	Users(after string, limit int) ([]User, error)
	// PutUser adds or replaces a user.
	PutUser(User) error
	// RemoveUser removes a user, with the tickets, the networks, and what throttles remember and know, if there is one.
	// The messages stay.
	RemoveUser(name string) error

	// Remembered returns what a throttle remembers of a user, or ErrNotFound.
	Remembered(throttle, user string) (Memory, error)
	// Memories returns what throttles remember of a user, up to limit.
	Memories(user string, limit int) ([]Memory, error)
	// Remember replaces what a throttle remembers. Without a State it is forgotten.
	Remember(Memory) error
	// Due returns up to limit of what throttles remember with something due at now, the longest due first.
	Due(now time.Time, limit int) ([]Memory, error)
	// Stopped returns up to limit of what throttles remember of stopped users, by throttle and user, after one of them.
	Stopped(afterThrottle, afterUser string, limit int) ([]Memory, error)

	// Sketch returns what a reach throttle knows of a user, or ErrNotFound.
	Sketch(throttle, user string) (Sketch, error)
	// Known returns the part of it that is stored by itself, or ErrNotFound.
	Known(throttle, user string) ([]byte, error)
	// PutSketch replaces what a reach throttle knows of a user. Without a State it is forgotten, with its known part.
	PutSketch(Sketch) error
	// PutKnown replaces the known part of a sketch, without which it is ErrNotFound. Empty: it is forgotten.
	PutKnown(throttle, user string, known []byte) error
	// Flagged returns up to limit sketches of flagged users, by throttle and user, after one of them.
	Flagged(afterThrottle, afterUser string, limit int) ([]Sketch, error)

	// PutMessage adds a mail with its addressees, up to MaxAddressees; they need not say which mail they are
	// of. Its Size is that of the text. An id that is there gets ErrExists; a text in a file that was not sealed, or
	// that another mail has, ErrInvalid.
	PutMessage(Message, Text, []Addressee) error
	// Message returns a mail without its text, or ErrNotFound.
	Message(id MailID) (Message, error)
	// Addressees returns the addressees of a mail.
	Addressees(id MailID) ([]Addressee, error)
	// Messages returns up to limit mails that match, with their addressees.
	Messages(q MessageQuery, limit int) ([]Queued, error)
	// Count returns how many mails and addressees there are, by state.
	Count() (messages int, addressees map[State]int, err error)
	// Ready returns up to limit addressees in the states Ready, Pooled or Sending that are due at now, the longest due
	// first. Pooled are left out unless they are asked for.
	Ready(now time.Time, pooled bool, limit int) ([]Addressee, error)
	// NextDue is when the next thing is due that Due or Ready (without the pooled) would return; the zero time for
	// never. What is due at once has been since 1970.
	NextDue() (time.Time, error)
	// PutAddressees replaces addressees, by mail and number. One that is not there gets ErrNotFound.
	PutAddressees(...Addressee) error
	// RemoveAddressees removes addressees of a mail, if they are there. The last takes the mail and its text with it.
	RemoveAddressees(id MailID, numbers ...int) error

	// PutTicket adds a ticket, or replaces it.
	PutTicket(Ticket) error
	// Ticket returns a ticket, or ErrNotFound.
	Ticket(nonce string) (Ticket, error)
	// RemoveTickets takes away all tickets of a user.
	RemoveTickets(user string) error
	// PruneTickets forgets tickets that are over at now, up to limit.
	PruneTickets(now time.Time, limit int) error

	// Spend notes that a mail stamp is used, and reports whether it was fresh. More than most are ErrCrowded.
	Spend(s Stamp, most int) (fresh bool, err error)
	// Spent reports whether a mail stamp is used.
	Spent(nonce StampNonce) (bool, error)
	// PruneStamps forgets stamps that are over at now, up to limit, the oldest first, and returns how many.
	PruneStamps(now time.Time, limit int) (int, error)

	// Log adds to the audit log, at its end, and gives the entry its ID.
	Log(Entry) error
	// Entries returns up to limit entries of the audit log that match, the latest first.
	Entries(q EntryQuery, limit int) ([]Entry, error)
	// PruneEntries forgets entries of before a time, up to limit.
	PruneEntries(before time.Time, limit int) error
}

// Texts of no mail, such as those of a store that was moved away, are kept for a while in AsideFolder below the data
// folder.
const (
	AsideFolder = "mail-unknown"
	KeepAside   = 30 * 24 * time.Hour
)

// Swept are the files that Sweep has found.
type Swept struct {
	Removed  int
	SetAside int
}

// A Sketch is what a reach throttle knows of a user: the known recipients, and how many are new. It is written with
// each mail. The known part is long and seldom changes, so it is stored separately.
type Sketch struct {
	Throttle string
	User     string // empty: what the throttle knows of all its users together
	State    []byte // as the mechanism writes it
	Flagged  bool
}

// Validate returns what is wrong with the sketch: ErrInvalid or ErrTooLarge.
func (k *Sketch) Validate() error {
	return checkSketched("a sketch", k.Throttle, k.User, k.State, MaxSketch)
}

// CheckKnown returns what is wrong with the known part of a sketch: ErrInvalid or ErrTooLarge.
func CheckKnown(throttle, user string, known []byte) error {
	return checkSketched("the known part of a sketch", throttle, user, known, MaxKnownBytes)
}

func checkSketched(what, throttle, user string, state []byte, most int) error {
	if err := checkTexts(bounded{"the name of a throttle", throttle, MaxThrottle, true},
		bounded{"the name of a user", user, MaxUser, false}); err != nil || len(state) <= most {
		return err
	}
	return fmt.Errorf("%s of %d bytes, at most %d: %w", what, len(state), most, ErrTooLarge)
}

// A StampNonce is what tells a mail stamp from all others.
type StampNonce [16]byte

// A Stamp is a mail stamp that is used, or about to be.
type Stamp struct {
	Nonce StampNonce
	Until time.Time // when nobody takes it any more, so that it can be forgotten
}

// Validate returns ErrInvalid for a stamp that cannot be stored.
func (s *Stamp) Validate() error { return checkTime("the end of a stamp", s.Until) }
