package console

import (
	"context"
	"fmt"
	"net/http"

	"weir/console/access"
	"weir/store"
)

// Bounds of answers about the queue, so that a client can always read them.
const (
	MaxMailPage       = 1000     // mails in one answer
	MaxMailRecipients = 10_000   // recipients in one answer
	MaxMailOrder      = 1000     // mails that one order names
	MaxHeader         = 64 << 10 // bytes of a mail's header
)

// A MailLine is a message in a list.
type MailLine struct {
	store.Queued
	More int `json:"more,omitempty"` // recipients that are left out, as there are too many
}

// A MailPage is a part of the queue, the oldest message first.
type MailPage struct {
	Mails []MailLine   `json:"messages"`
	Next  store.MailID `json:"next,omitempty"` // where the next page begins; left out on the last one
}

// A MailView is a message with its header.
type MailView struct {
	MailLine
	Header string `json:"header"` // as it is stored, up to MaxHeader
	Text   string `json:"text"`   // what people can read of it, up to MaxMailText; empty for the role view
}

// A MailOrder names messages: by their ids, or all of a user.
type MailOrder struct {
	Mails []store.MailID `json:"messages,omitempty"`
	User  string         `json:"user,omitempty"`
	All   bool           `json:"all,omitempty"` // of the user, whatever is held or delayed
}

func (o *MailOrder) check() error {
	switch {
	case o.All && len(o.Mails) > 0:
		return Invalid("name messages, or all of a user, not both")
	case o.All:
		return checkLine("user", o.User, store.MaxAccount, false)
	case o.User != "":
		return Invalid("user: goes with all; name messages by their ids")
	case len(o.Mails) == 0:
		return Invalid("which mail?")
	case len(o.Mails) > MaxMailOrder:
		return Invalid(fmt.Sprintf("%d messages at once, at most %d", len(o.Mails), MaxMailOrder))
	}
	return nil
}

// A MailResult is the result of a MailOrder.
type MailResult struct {
	Mails      int `json:"messages"`   // that it was done to
	Recipients int `json:"recipients"` // of them
	// not in the queue, or in a state in which this cannot be done
	Missing []store.MailID `json:"missing,omitempty"`
}

// A MailQuery asks for a part of the queue.
type MailQuery struct {
	MailFilter
	After store.MailID `json:"after,omitempty"` // the Next of the page before
	Limit int          `json:"limit,omitempty"` // at most MaxMailPage, which is the default
}

// A MailName names a message.
type MailName struct {
	ID store.MailID `json:"id"`
}

// mailOrder is the function of a call that acts on messages.
func mailOrder(do func(Mail, context.Context, string, MailOrder) (MailResult, error)) func(*Request,
	*MailOrder) (MailResult, error) {
	return withMail(func(q *Request, m Mail, in *MailOrder) (MailResult, error) {
		if err := in.check(); err != nil {
			return MailResult{}, err
		}
		return do(m, q, q.by(), *in)
	})
}

// saidMail tells what became of messages.
func saidMail(done string) func(*MailOrder, MailResult) string {
	return func(_ *MailOrder, out MailResult) string {
		text := done + ": " + several(out.Mails, "message")
		if len(out.Missing) > 0 {
			text += "; " + several(len(out.Missing), "message") + " could not be found, or is in another state"
		}
		return text + "."
	}
}

var (
	QueueListCall = define(Call{Method: http.MethodGet, Path: "/mail", Role: access.View, Commands: []string{"queue list"},
		Summary: "Shows a part of the mail that waits."},
		withMail(func(q *Request, m Mail, in *MailQuery) (MailPage, error) {
			limit, err := limitOf(in.Limit, MaxMailPage)
			if err != nil {
				return MailPage{}, err
			}
			f := in.MailFilter
			if err := f.check(); err != nil {
				return MailPage{}, err
			}
			if f != (MailFilter{User: f.User, State: f.State}) {
				found, next, err := m.Find(q, f, in.After, limit)
				p := pageOf(found, limit)
				if p.Next == 0 { // else not all that was found fits
					p.Next = next
				}
				return p, err
			}
			found, err := m.Queue(q, store.MessageQuery{User: in.User, State: in.State, After: in.After}, limit)
			return pageOf(found, limit), err
		}))

	QueueShowCall = define(Call{Method: http.MethodGet, Path: "/mail/show", Role: access.View,
		Commands: []string{"queue show"}, Summary: "Shows a message: its remaining recipients, its header and its text."},
		withMail(func(q *Request, m Mail, in *MailName) (MailView, error) {
			found, header, text, err := m.ShowMail(q, in.ID)
			if !q.Who.Role.May(access.Act) {
				text = "" // what people write is for those who have to decide about it
			}
			return MailView{cut(found, MaxMailRecipients), header[:min(len(header), MaxHeader)], text},
				missing(err, "there is no message %s: it was delivered or deleted, or never existed", in.ID)
		}))

	queueRelease = define(Call{Method: http.MethodPost, Path: "/mail/release", Role: access.Act,
		Commands: []string{"queue release"}, Summary: "Sends held and delayed messages at once."},
		mailOrder(Mail.Release)).logged().saying(saidMail("Released"))

	queueDelete = define(Call{Method: http.MethodPost, Path: "/mail/delete", Role: access.Act,
		Commands: []string{"queue delete"}, Summary: "Deletes held and delayed messages. Nobody is told."},
		mailOrder(Mail.Delete)).logged().saying(saidMail("Deleted"))

	queueRetry = define(Call{Method: http.MethodPost, Path: "/mail/retry", Role: access.Act,
		Commands: []string{"queue retry"}, Summary: "Tries messages now that wait for another try."},
		mailOrder(func(m Mail, ctx context.Context, by string, o MailOrder) (MailResult, error) {
			if o.All {
				return MailResult{}, Invalid("which mail?")
			}
			return m.Retry(ctx, by, o.Mails)
		})).saying(saidMail("Tried again"))
)

// pageOf makes a page of the messages that fit.
func pageOf(found []store.Queued, limit int) MailPage {
	p := MailPage{Mails: []MailLine{}}
	left := MaxMailRecipients
	for i, q := range found {
		if i > 0 && len(q.To) > left {
			p.Next = found[i-1].ID
			return p
		}
		p.Mails = append(p.Mails, cut(q, MaxMailRecipients))
		left -= len(q.To)
	}
	if len(found) > 0 && len(found) >= limit {
		p.Next = found[len(found)-1].ID
	}
	return p
}

func cut(q store.Queued, most int) MailLine {
	line := MailLine{Queued: q}
	if len(q.To) > most {
		line.To, line.More = q.To[:most:most], len(q.To)-most
	}
	return line
}

// Queue returns a part of the queue.
func (c *Client) Queue(ctx context.Context, q store.MessageQuery, limit int) (MailPage, error) {
	return QueueListCall.Ask(ctx, c, MailQuery{MailFilter{User: q.User, State: q.State}, q.After, limit})
}

// Release sends held and delayed messages at once.
func (c *Client) Release(ctx context.Context, o MailOrder) (MailResult, error) {
	return c.order(ctx, queueRelease, o)
}

// Delete removes held and delayed messages.
func (c *Client) Delete(ctx context.Context, o MailOrder) (MailResult, error) {
	return c.order(ctx, queueDelete, o)
}

// Retry repeats deliveries now instead of later.
func (c *Client) Retry(ctx context.Context, o MailOrder) (MailResult, error) {
	return c.order(ctx, queueRetry, o)
}

// order sends an order in parts of at most MaxMailOrder messages.
func (c *Client) order(ctx context.Context, by *CallOf[MailOrder, MailResult], o MailOrder) (all MailResult,
	err error) {
	for first := true; first || len(o.Mails) > 0; first = false {
		part := o
		part.Mails = o.Mails[:min(len(o.Mails), MaxMailOrder)]
		o.Mails = o.Mails[len(part.Mails):]
		r, err := by.Ask(ctx, c, part)
		if err != nil {
			return all, err
		}
		all.Mails, all.Recipients, all.Missing = all.Mails+r.Mails, all.Recipients+r.Recipients,
			append(all.Missing, r.Missing...)
	}
	return all, nil
}
