package store

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

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
