package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
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

// A MailID names a mail. Later mails have greater ones. As text it is what logs, Received fields and operators call it.
type MailID uint64

// idAlphabet leaves out letters that are easily mistaken for digits or for others.
const idAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const idLength = 13

// String writes the id in 13 characters.
func (id MailID) String() string {
	var text [idLength]byte
	for i := range text {
		text[i] = idAlphabet[id>>(5*(idLength-1-i))&31]
	}
	return string(text[:])
}

// MarshalText writes the id as String does.
func (id MailID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote, in either case.
func (id *MailID) UnmarshalText(text []byte) error {
	read, err := ParseMailID(string(text))
	if err == nil {
		*id = read
	}
	return err
}

// ParseMailID reads what String writes, in either case.
func ParseMailID(text string) (MailID, error) {
	var id MailID
	good := len(text) == idLength
	for i, c := range []byte(strings.ToUpper(text[:min(len(text), idLength)])) {
		value := strings.IndexByte(idAlphabet, c)
		good = good && value >= 0 && (i > 0 || value <= 15)
		id = id<<5 | MailID(value)
	}
	if !good {
		return 0, fmt.Errorf("%.64q is not the id of a message (%d letters and digits): %w", text, idLength, ErrInvalid)
	}
	return id, nil
}

// MailIDs makes ids. Give each process a random Start. It is safe for concurrent use.
type MailIDs struct {
	Start [2]byte // any
	count atomic.Uint32
}

// Next returns an id for a mail that came in at a time: 42 bits of milliseconds and 22 bits of a counter.
func (m *MailIDs) Next(now time.Time) MailID {
	n := m.count.Add(1) + uint32(binary.BigEndian.Uint16(m.Start[:]))<<6
	return MailID(uint64(max(now.UnixMilli(), 0))<<22&^(1<<63) | uint64(n&(1<<22-1)))
}

// A Message is a mail in the spool, without its text.
type Message struct {
	ID       MailID     `json:"id"`
	Gate     string     `json:"gate"`    // that took it; its next hop delivers it
	User     string     `json:"user"`    // who is charged for it
	Sender   string     `json:"sender"`  // of the envelope; empty: no bounces are sent
	Subject  string     `json:"subject"` // decoded, cut to MaxSubject
	Source   netip.Addr `json:"source,omitzero"`
	Received time.Time  `json:"received"`
	Size     int64      `json:"size"`               // of its text
	UTF8     bool       `json:"utf8,omitempty"`     // SMTPUTF8
	EightBit bool       `json:"eightbit,omitempty"` // BODY=8BITMIME
	Return   string     `json:"return,omitempty"`   // of RET: FULL, HDRS or empty
	Envelope string     `json:"envelope,omitempty"` // of ENVID
	Own      bool       `json:"own,omitempty"`      // weir wrote it: a notice or a bounce
	// the name of the file that has its text; empty where the store has it
	Filed string `json:"-"`
}

// A State is what an addressee waits for.
type State uint8

// The states.
const (
	Ready State = iota + 1 // to be delivered, from Due on
	// being delivered, until the lease ends at Due; whether it has arrived is unknown
	Sending
	Delayed  // in the delay queue of the user
	Held     // the user is stopped, or the mail is to be reviewed
	Pooled   // without a stamp, until there is less to do
	Withheld // new to a flagged user; until a review
)

// States lists all of them.
var States = [...]State{Ready, Sending, Delayed, Held, Pooled, Withheld}

var stateNames = [...]string{"", "ready", "sending", "delayed", "held", "pooled", "withheld"}

func (s State) String() string {
	if s >= 1 && int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText writes the state as a word.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 1 {
		return fmt.Errorf("unknown state %.64q: %w", text, ErrInvalid)
	}
	*s = State(i)
	return nil
}

// An Addressee is a recipient that a mail still has to reach.
type Addressee struct {
	Mail     MailID `json:"mail"`
	Number   int    `json:"number"` // in the envelope, from 0
	Address  string `json:"address"`
	Notify   string `json:"notify,omitempty"`   // of NOTIFY, upper case, separated by commas
	Original string `json:"original,omitempty"` // of ORCPT, with its type: rfc822;ann@example.org
	State    State  `json:"state"`
	// Ready, Pooled: not before; Sending: the end of the lease; zero: at once
	Due time.Time `json:"due,omitzero"`
	// when it was first ready: the time after which it bounces counts from here
	Since   time.Time `json:"since,omitzero"`
	Attempt int       `json:"attempt"`          // how often it was tried
	Owner   string    `json:"owner,omitempty"`  // Sending: the process that does
	Status  string    `json:"status,omitempty"` // what the next hop said last
	Warned  bool      `json:"warned,omitempty"` // the sender was told that it takes longer
}

// Queued is a mail with its addressees.
type Queued struct {
	Message
	To []Addressee `json:"to"`
}

// A MessageQuery says which mails are wanted. The zero value wants all.
type MessageQuery struct {
	User  string // of this user
	State State  // with an addressee in this state
	After MailID // later than this one
}

// A User may send mail.
type User struct {
	Name     string    `json:"name"`
	Password string    `json:"-"`                  // as package login writes it; empty: no log-in
	Contact  string    `json:"contact,omitempty"`  // where notices go
	Senders  []string  `json:"senders,omitempty"`  // the addresses that the user may send from; none: any
	Limits   string    `json:"limits,omitempty"`   // own limits, as package outbreak writes them
	Language string    `json:"language,omitempty"` // what notices and pages are written in; empty: the usual one
	Disabled bool      `json:"disabled,omitempty"`
	Made     time.Time `json:"made"`
	Changed  time.Time `json:"changed"`
}

// A Memory is what a throttle remembers of a user between mails.
type Memory struct {
	Throttle string
	User     string
	State    []byte    // as the mechanism writes it
	Due      time.Time // when something is to be done about it; zero for never
	Stopped  bool
}

// A Ticket lets somebody act on mails of a user: once by mail, or for a while on a page.
type Ticket struct {
	Nonce    string
	User     string
	Throttle string
	Gate     string
	Messages []MailID // as they were numbered in the notice, from 1
	Until    time.Time
	Used     bool
}

// An Entry of the audit log says who did what.
type Entry struct {
	ID   int64     `json:"id"` // by the store; later entries have greater ones
	At   time.Time `json:"at"`
	By   string    `json:"by"`             // an operator, a user, or weir
	What string    `json:"what"`           // one word: stopped, released, deleted, resumed, ambiguous …
	User string    `json:"user,omitempty"` // that it concerns
	Mail MailID    `json:"mail,omitempty"`
	Text string    `json:"text,omitempty"`
	From string    `json:"from,omitempty"` // the address that it came from; empty if weir did it, or is not told
	// What was there before and after, as JSON, where the act has such a thing.
	Before Detail `json:"before,omitempty"`
	After  Detail `json:"after,omitempty"`
}

// An EntryQuery says which entries of the audit log are wanted. The zero value wants all.
type EntryQuery struct {
	Before int64     // earlier than this entry; 0: from the end
	By     string    // by this operator or user
	What   string    // of this kind
	User   string    // that concern this user
	Mail   MailID    // that concern this mail; 0: any
	Text   string    // with this in any text, in the case that it is written in
	Since  time.Time // not before
	Until  time.Time // before
}
