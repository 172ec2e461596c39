package store

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Bounds of mail, in bytes and in entries.
const (
	MaxInline         = 64 << 10  // a text up to here is in the store itself, a longer one in a file
	MaxAddress        = 512       // an address of the envelope
	MaxOriginal       = 768       // … as the client first knew it, with its type
	MaxNotify         = 64        // of NOTIFY
	MaxEnvelope       = 128       // of ENVID
	MaxSubject        = 256       // of a mail
	MaxUser           = 256       // the name of a user
	MaxGate           = 128       // the name of a gate
	MaxPassword       = 512       // of a user, hashed
	MaxLimits         = 4096      // own limits of a user
	MaxLanguage       = 35        // the tag of a language
	MaxSenders        = 128       // addresses that a user may send from
	MaxMemory         = 2 << 20   // what a throttle remembers of a user
	MaxSketch         = 512 << 10 // what a reach throttle knows of a user
	MaxKnownBytes     = 4 << 20   // … the known part of it
	MaxAddressees     = 10_000    // of a mail
	MaxStatus         = 1024      // what the next hop said
	MaxOwner          = 128       // the name of a process
	MaxNonce          = 128       // of a ticket
	MaxTicketMessages = 1000      // mails that a ticket is about
	MaxWhat           = 64        // what was done
	MaxEntryText      = 2048      // of an entry of the audit log
)

// Valid reports whether the id is one that a mail can have.
func (id MailID) Valid() bool { return id > 0 && id < 1<<63 }

// Valid reports whether the state is one of those named here.
func (s State) Valid() bool { return s >= Ready && s <= Withheld }

// A bounded is a text of a value, and how long it may be.
type bounded struct {
	what, text string
	most       int
	needed     bool
}

func checkTexts(all ...bounded) error {
	for i := range all {
		t := &all[i]
		if t.needed && t.text == "" {
			return fmt.Errorf("%s is missing: %w", t.what, ErrInvalid)
		}
		if err := checkText(t.what, t.text, t.most); err != nil {
			return err
		}
	}
	return nil
}

// checkLine is checkText for a text that will be a part of a line of a protocol.
func checkLine(what, text string, most int) error {
	if strings.ContainsAny(text, "\r\n") {
		return fmt.Errorf("%s has a line break: %w", what, ErrInvalid)
	}
	return checkText(what, text, most)
}

// checkWhen is checkMaybe for a time that stores write as the epoch if it is missing.
func checkWhen(what string, t time.Time) error {
	if t.Equal(earliest) {
		return checkTime(what, time.Time{})
	}
	return checkMaybe(what, t)
}

// Validate returns what is wrong with the mail: ErrInvalid or ErrTooLarge.
func (l *Message) Validate() error {
	if err := cmp.Or(checkTexts(
		bounded{"the name of a gate", l.Gate, MaxGate, true}, bounded{"the name of a user", l.User, MaxUser, false},
		bounded{"a subject", l.Subject, MaxSubject, false},
		bounded{"the id of an envelope", l.Envelope, MaxEnvelope, false},
	), checkLine("the address of a sender", l.Sender, MaxAddress)); err != nil {
		return err
	}
	switch {
	case !l.ID.Valid():
		return fmt.Errorf("%s is not the id of a message: %w", l.ID, ErrInvalid)
	case !plainSource(l.Source):
		return fmt.Errorf("the source %s is not written as it should be: %w", l.Source, ErrInvalid)
	case l.Return != "" && l.Return != "FULL" && l.Return != "HDRS":
		return fmt.Errorf("RET=%.16q: %w", l.Return, ErrInvalid)
	case l.Size < 0:
		return fmt.Errorf("a size of %d: %w", l.Size, ErrInvalid)
	}
	return checkTime("received", l.Received)
}

// plainSource reports whether an address is missing, or has neither a zone nor IPv4 mapped into IPv6.
func plainSource(a netip.Addr) bool { return a.Zone() == "" && !a.Is4In6() }

// Validate returns what is wrong with the addressee: ErrInvalid or ErrTooLarge.
func (a *Addressee) Validate() error {
	if err := checkTexts(
		bounded{"the address of an addressee", a.Address, MaxAddress, true},
		bounded{"NOTIFY", a.Notify, MaxNotify, false}, bounded{"an original address", a.Original, MaxOriginal, false},
		bounded{"the name of a process", a.Owner, MaxOwner, false}, bounded{"a status", a.Status, MaxStatus, false},
	); err != nil {
		return err
	}
	switch {
	case strings.ContainsAny(a.Address, "\r\n"):
		return fmt.Errorf("the address of an addressee has a line break: %w", ErrInvalid)
	case !a.Mail.Valid():
		return fmt.Errorf("%s is not the id of a message: %w", a.Mail, ErrInvalid)
	case a.Number < 0 || a.Number >= MaxAddressees:
		return fmt.Errorf("addressee number %d, from 0 up to %d: %w", a.Number, MaxAddressees-1, ErrInvalid)
	case !a.State.Valid():
		return fmt.Errorf("an addressee in %s: %w", a.State, ErrInvalid)
	case a.Attempt < 0:
		return fmt.Errorf("attempt %d: %w", a.Attempt, ErrInvalid)
	}
	return cmp.Or(checkWhen("due", a.Due), checkWhen("since", a.Since))
}

// CheckAddressees returns ErrInvalid for a mail without addressees, ErrTooLarge for more than MaxAddressees, and
// otherwise the mistake of the first addressee that has one. Addressees need not say which mail they belong to.
func CheckAddressees(id MailID, all []Addressee) error {
	if len(all) == 0 {
		return fmt.Errorf("a mail to nobody: %w", ErrInvalid)
	}
	if len(all) > MaxAddressees {
		return fmt.Errorf("a mail to %d, at most %d: %w", len(all), MaxAddressees, ErrTooLarge)
	}
	for _, a := range all {
		a.Mail = id
		if err := a.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Validate returns what is wrong with the text: ErrInvalid or ErrTooLarge.
func (t *Text) Validate() error {
	switch {
	case len(t.Inline) > MaxInline:
		return fmt.Errorf("a text of %d bytes without a file, at most %d: %w", len(t.Inline), MaxInline, ErrTooLarge)
	case t.File != "" && len(t.Inline) > 0:
		return fmt.Errorf("a text in a file and in the store: %w", ErrInvalid)
	case t.Size < 0, t.File == "" && t.Size != int64(len(t.Inline)):
		return fmt.Errorf("a text of %d bytes that says it has %d: %w", len(t.Inline), t.Size, ErrInvalid)
	}
	return nil
}

// Validate returns what is wrong with the user: ErrInvalid or ErrTooLarge.
func (u *User) Validate() error {
	if err := cmp.Or(checkTexts(
		bounded{"the name of a user", u.Name, MaxUser, true}, bounded{"a password", u.Password, MaxPassword, false},
		bounded{"the user's limits", u.Limits, MaxLimits, false},
		bounded{"the user's language", u.Language, MaxLanguage, false},
	), checkLine("the contact of a user", u.Contact, MaxAddress)); err != nil {
		return err
	}
	if len(u.Senders) > MaxSenders {
		return fmt.Errorf("%d addresses to send from, at most %d: %w", len(u.Senders), MaxSenders, ErrTooLarge)
	}
	for _, sender := range u.Senders {
		if sender == "" {
			return fmt.Errorf("an empty address to send from: %w", ErrInvalid)
		}
		if err := checkLine("an address to send from", sender, MaxAddress); err != nil {
			return err
		}
	}
	return cmp.Or(checkWhen("made", u.Made), checkWhen("changed", u.Changed))
}

// Validate returns what is wrong with the memory: ErrInvalid or ErrTooLarge.
func (m *Memory) Validate() error {
	if len(m.State) > MaxMemory {
		return fmt.Errorf("%d bytes to remember of a user, at most %d: %w", len(m.State), MaxMemory, ErrTooLarge)
	}
	return cmp.Or(checkTexts(bounded{"the name of a throttle", m.Throttle, MaxThrottle, true},
		bounded{"the name of a user", m.User, MaxUser, true}), checkWhen("due", m.Due))
}

// Validate returns what is wrong with the ticket: ErrInvalid or ErrTooLarge.
func (t *Ticket) Validate() error {
	if len(t.Messages) > MaxTicketMessages {
		return fmt.Errorf("a ticket about %d messages, at most %d: %w", len(t.Messages), MaxTicketMessages, ErrTooLarge)
	}
	for _, id := range t.Messages {
		if !id.Valid() {
			return fmt.Errorf("%s is not the id of a message: %w", id, ErrInvalid)
		}
	}
	return cmp.Or(checkTexts(
		bounded{"the nonce of a ticket", t.Nonce, MaxNonce, true}, bounded{"the name of a user", t.User, MaxUser, true},
		bounded{"the name of a throttle", t.Throttle, MaxThrottle, false},
		bounded{"the name of a gate", t.Gate, MaxGate, false},
	), checkTime("until", t.Until))
}

// Validate returns what is wrong with the entry: ErrInvalid or ErrTooLarge.
func (e *Entry) Validate() error {
	if e.Mail != 0 && !e.Mail.Valid() {
		return fmt.Errorf("%s is not the id of a message: %w", e.Mail, ErrInvalid)
	}
	return cmp.Or(checkTexts(
		bounded{"who did it", e.By, MaxUser, true}, bounded{"what was done", e.What, MaxWhat, true},
		bounded{"the name of a user", e.User, MaxUser, false},
		bounded{"the text of an entry", e.Text, MaxEntryText, false},
		bounded{"the source of an entry", e.From, MaxSource, false},
	), checkTime("at", e.At), e.Before.validate("what was before"), e.After.validate("what is after"))
}

// CheckLimit returns ErrInvalid for a limit below zero and ErrTooLarge for one of more than MaxBatch.
func CheckLimit(limit int) error {
	switch {
	case limit < 0:
		return fmt.Errorf("a limit of %d: %w", limit, ErrInvalid)
	case limit > MaxBatch:
		return fmt.Errorf("a limit of %d, at most %d: %w", limit, MaxBatch, ErrTooLarge)
	}
	return nil
}
