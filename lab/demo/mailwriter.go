package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Where everybody lives. All of it is reserved for examples (RFC 2606).
const (
	mailHost    = "mail.here.example"
	mailCommand = "weir@" + mailHost
	mailAdmin   = "admin@here.example"
)

// A writer is somebody who sends mail over the gate. One mail is under way at a time.
type writer struct {
	name, password string
	contact        string // where they are told of held mail

	// People write to those they know, and now and then to somebody new or to several at once.
	friends       []string
	met, invited  time.Time // when they wrote to somebody new, and to several
	written, last int       // mails, and to which of their friends
}

func (w *writer) address() string { return w.name + "@here.example" }

// A letter is a mail that is to be sent.
type letter struct {
	id, subject, text string
	from              string
	to                []string
}

func (l *letter) String() string {
	return fmt.Sprintf("From: <%s>\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s>\r\n\r\n%s\r\n",
		l.from, strings.Join(l.to, ", "), l.subject, time.Now().Format(time.RFC1123Z), l.id,
		strings.ReplaceAll(l.text, "\n", "\r\n"))
}

// submit logs in and sends a mail, in a session of its own. loggedIn is called in between: how long it takes counts
// from there.
func submit(ctx context.Context, gate, name, password string, l *letter, loggedIn func()) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", gate)
	if err != nil {
		return err
	}
	c := smtp.NewClient(conn)
	defer c.Close()
	c.CommandTimeout, c.SubmissionTimeout = patience, patience
	if err := c.Auth(sasl.NewPlainClient("", name, password)); err != nil {
		return err
	}
	loggedIn()
	if err := c.SendMail(l.from, l.to, strings.NewReader(l.String())); err != nil {
		return err
	}
	_ = c.Quit() // the mail was taken
	return nil
}

// taken says what an answer of the gate means. A mail that it takes is not handed on yet.
func taken(err error) Result {
	if err == nil {
		return Held
	}
	if code(err)/100 == 5 {
		return Refused
	}
	return Failed
}

// code returns what the gate has answered, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*smtp.SMTPError](err); ok {
		return e.Code
	}
	return 0
}

// People are at their pace: of a minute here, and not of the clock.
const (
	meetEvery   = 2 * mailPeriod // somebody new: the credit for that has come back long before
	inviteEvery = 5 * mailPeriod // as many at once as come back in that time
	inviteSize  = 4
	knownMost   = 4 // of all the friends that there are: fewer than the working set has room for
)

// next returns who a person writes to now.
func (w *writer) next(now time.Time) []string {
	w.written++
	if w.written%3 == 0 && now.Sub(w.invited) >= inviteEvery {
		w.invited = now
		return w.invitees()
	}
	if len(w.friends) < knownMost && now.Sub(w.met) >= meetEvery {
		w.met = now
		w.friends = append(w.friends, fmt.Sprintf("%s.friend.%d@there.example", w.name, len(w.friends)+1))
		w.last = len(w.friends) - 1
		return w.friends[w.last:]
	}
	w.last = (w.last + 1) % len(w.friends)
	return w.friends[w.last : w.last+1]
}

// invitees are several at once.
func (w *writer) invitees() (all []string) {
	for i := range inviteSize {
		all = append(all, fmt.Sprintf("%s.guest.%d@there.example", w.name, i+1))
	}
	return all
}
