package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

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
	Mails []MailLine   `json:"mails"`
	Next  store.MailID `json:"next,omitempty"` // where the next page begins; left out on the last one
}

// A MailView is a message with its header.
type MailView struct {
	MailLine
	Header string `json:"header"` // as it is stored, up to MaxHeader
}

// A MailOrder names messages: by their ids, or all of a user.
type MailOrder struct {
	Mails []store.MailID `json:"mails,omitempty"`
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
	Mails      int `json:"mails"`      // that it was done to
	Recipients int `json:"recipients"` // of them
	// not in the queue, or in a state in which this cannot be done
	Missing []store.MailID `json:"missing,omitempty"`
}

func (c *Control) queueHandlers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/mail", mailAnswer(c, func(r *http.Request, m Mail, _ *none) (any, error) {
		q, err := queryOf(r.URL.Query())
		if err != nil {
			return nil, err
		}
		limit, err := limitOf(r, MaxMailPage)
		if err != nil {
			return nil, err
		}
		found, err := m.Queue(r.Context(), q, limit)
		return pageOf(found, limit), err
	}))
	mux.HandleFunc("GET /v1/mail/show", mailAnswer(c, func(r *http.Request, m Mail, _ *none) (any, error) {
		id, err := store.ParseMailID(r.URL.Query().Get("id"))
		if err != nil {
			return nil, err
		}
		q, header, err := m.ShowMail(r.Context(), id)
		return MailView{cut(q, MaxMailRecipients), header[:min(len(header), MaxHeader)]},
			missing(err, "there is no mail %s: it was delivered, or deleted, or never was", id)
	}))
	for path, do := range map[string]func(Mail, context.Context, string, MailOrder) (MailResult, error){
		"release": Mail.Release, "delete": Mail.Delete,
		"retry": func(m Mail, ctx context.Context, by string, o MailOrder) (MailResult, error) {
			if o.All {
				return MailResult{}, Invalid("which mail?")
			}
			return m.Retry(ctx, by, o.Mails)
		},
	} {
		mux.HandleFunc("POST /v1/mail/"+path, mailAnswer(c, func(r *http.Request, m Mail, o *MailOrder) (any, error) {
			if err := o.check(); err != nil {
				return nil, err
			}
			return do(m, r.Context(), operator(r), *o)
		}))
	}
}

func queryOf(v url.Values) (q store.LetterQuery, err error) {
	q.User = v.Get("user")
	if err := checkLine("user", q.User, store.MaxAccount, true); err != nil {
		return q, err
	}
	if state := v.Get("state"); state != "" {
		if err := q.State.UnmarshalText([]byte(state)); err != nil {
			return q, err
		}
	}
	if after := v.Get("after"); after != "" {
		q.After, err = store.ParseMailID(after)
	}
	return q, err
}

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
func (c *Client) Queue(ctx context.Context, q store.LetterQuery, limit int) (MailPage, error) {
	state, after := "", ""
	if q.State != 0 {
		state = q.State.String()
	}
	if q.After != 0 {
		after = q.After.String()
	}
	return fetch[MailPage](ctx, c, http.MethodGet,
		withQuery("/v1/mail", "user", q.User, "state", state, "after", after, "limit", ifSet(limit)), nil)
}

// ShowMail returns a message with its header.
func (c *Client) ShowMail(ctx context.Context, id store.MailID) (MailView, error) {
	return fetch[MailView](ctx, c, http.MethodGet, "/v1/mail/show?id="+id.String(), nil)
}

// Release sends held and delayed messages at once.
func (c *Client) Release(ctx context.Context, o MailOrder) (MailResult, error) {
	return c.order(ctx, "release", o)
}

// Delete removes held and delayed messages.
func (c *Client) Delete(ctx context.Context, o MailOrder) (MailResult, error) {
	return c.order(ctx, "delete", o)
}

// Retry repeats deliveries now instead of later.
func (c *Client) Retry(ctx context.Context, o MailOrder) (MailResult, error) {
	return c.order(ctx, "retry", o)
}

// order sends an order in parts of at most MaxMailOrder messages.
func (c *Client) order(ctx context.Context, what string, o MailOrder) (all MailResult, err error) {
	for first := true; first || len(o.Mails) > 0; first = false {
		part := o
		part.Mails = o.Mails[:min(len(o.Mails), MaxMailOrder)]
		o.Mails = o.Mails[len(part.Mails):]
		var r MailResult
		if err := c.call(ctx, http.MethodPost, "/v1/mail/"+what, part, &r); err != nil {
			return all, err
		}
		all.Mails, all.Recipients, all.Missing = all.Mails+r.Mails, all.Recipients+r.Recipients,
			append(all.Missing, r.Missing...)
	}
	return all, nil
}
