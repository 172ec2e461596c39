package console

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"weir"
	"weir/console/access"
	"weir/mail/spool"
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
	QueueListCall = define(http.MethodGet, "/mail", access.View, "queue list", "Shows a part of the mail that waits.",
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

	QueueShowCall = define(http.MethodGet, "/mail/show", access.View, "queue show",
		"Shows a message: its remaining recipients, its header and its text.",
		withMail(func(q *Request, m Mail, in *MailName) (MailView, error) {
			found, header, text, err := m.ShowMail(q, in.ID)
			if !q.Who.Role.May(access.Act) {
				text = "" // what people write is for those who have to decide about it
			}
			return MailView{cut(found, MaxMailRecipients), header[:min(len(header), MaxHeader)], text},
				missing(err, "there is no message %s: it was delivered or deleted, or never existed", in.ID)
		}))

	QueueReleaseCall = define(http.MethodPost, "/mail/release", access.Act, "queue release",
		"Sends held and delayed messages at once.",
		mailOrder(Mail.Release)).logged().saying(saidMail("Released"))

	QueueDeleteCall = define(http.MethodPost, "/mail/delete", access.Act, "queue delete",
		"Deletes held and delayed messages. Nobody is told.",
		mailOrder(Mail.Delete)).logged().saying(saidMail("Deleted"))

	QueueRetryCall = define(http.MethodPost, "/mail/retry", access.Act, "queue retry",
		"Tries messages now that wait for another try.",
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

// Order sends an order in parts of at most MaxMailOrder messages.
func (c *Client) Order(ctx context.Context, by *CallOf[MailOrder, MailResult], o MailOrder) (all MailResult,
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

// MaxTrack is how many messages, attempts and acts one answer about the way of mail holds.
const MaxTrack = 100

// A MailFilter says which messages are meant. What is left out matches everything; of what is given, all must match.
// Texts are compared without regard to upper and lower case.
type MailFilter struct {
	User      string        `json:"user,omitempty"`      // exactly
	Sender    string        `json:"sender,omitempty"`    // a part of the address; <> for messages without a sender
	Recipient string        `json:"recipient,omitempty"` // a part of an address; only recipients that match are acted on
	Domain    string        `json:"domain,omitempty"`    // of a recipient; .example.com also matches what is below
	Subject   string        `json:"subject,omitempty"`   // a part
	State     store.State   `json:"state,omitempty"`     // of a recipient
	Older     weir.Duration `json:"older,omitzero"`      // received longer ago
	Newer     weir.Duration `json:"newer,omitzero"`      // received not so long ago
	Larger    weir.Size     `json:"larger,omitzero"`
	Smaller   weir.Size     `json:"smaller,omitzero"`
}

// Any reports whether the filter says nothing.
func (f *MailFilter) Any() bool { return *f == (MailFilter{}) }

func (f *MailFilter) check() error {
	for name, text := range map[string]string{"user": f.User, "sender": f.Sender, "recipient": f.Recipient,
		"domain": f.Domain, "subject": f.Subject} {
		if err := checkLine(name, text, store.MaxAccount, true); err != nil {
			return err
		}
	}
	switch {
	case f.Older < 0 || f.Newer < 0 || f.Larger < 0 || f.Smaller < 0:
		return Invalid("ages and sizes are not below zero")
	case f.Older > 0 && f.Newer > 0 && f.Older >= f.Newer:
		return Invalid("nothing is older than " + f.Older.String() + " and newer than " + f.Newer.String())
	case f.Larger > 0 && f.Smaller > 0 && f.Larger >= f.Smaller:
		return Invalid("nothing is larger than " + f.Larger.String() + " and smaller than " + f.Smaller.String())
	}
	return nil
}

// Since and Before are the times that ages stand for at now; zero where none is given.
func (f *MailFilter) Since(now time.Time) (t time.Time) {
	if f.Newer > 0 {
		t = now.Add(-f.Newer.Std())
	}
	return t
}

func (f *MailFilter) Before(now time.Time) (t time.Time) {
	if f.Older > 0 {
		t = now.Add(-f.Older.Std())
	}
	return t
}

// A BulkOrder asks to act on a part of all messages that match. A part is a bounded amount of work: whoever asks for
// all of it asks again with the Next and the UpTo of the part before.
type BulkOrder struct {
	Act string `json:"act"` // release, delete or retry
	MailFilter
	After store.MailID `json:"after,omitempty"` // the Next of the part before
	UpTo  store.MailID `json:"up_to,omitempty"` // the UpTo of the part before: what came since is left alone
	Dry   bool         `json:"dry,omitempty"`   // only count
}

func (o *BulkOrder) check() error {
	switch o.Act {
	case "retry":
	case "release", "delete":
		if o.Any() {
			return Invalid("which messages? Give a user, a sender, a recipient, a domain, a subject, a state, an age or " +
				"a size")
		}
	default:
		return Invalid("act: release, delete or retry")
	}
	return o.MailFilter.check()
}

// A BulkResult is what one part of a BulkOrder has done.
type BulkResult = spool.BulkResult

// A TrackQuery asks for the way of a message, or of mail to an address.
type TrackQuery struct {
	ID store.MailID `json:"id,omitempty"`
	// a part of an address; or a Message-ID, or the id of a message at the server before or after
	Recipient string `json:"recipient,omitempty"`
}

// A MailStep is what became of a message, or of one of its recipients, as it is in the log.
type MailStep = spool.MailStep

// A Track is what is known of the way of mail, up to MaxTrack of each.
type Track struct {
	Mails    []MailLine    `json:"messages"` // that wait
	Attempts []MailStep    `json:"attempts"` // the latest first; the last ten thousand are known, also after a restart
	Acts     []store.Entry `json:"acts"`     // of the audit log, the latest first; only of single messages
}

var (
	mailBulk = define(http.MethodPost, "/mail/bulk", access.Act,
		"queue release --all, queue delete --all, queue retry --all",
		"Acts on a part of all messages that match a filter.",
		withMail(func(q *Request, m Mail, in *BulkOrder) (BulkResult, error) {
			if err := in.check(); err != nil {
				return BulkResult{}, err
			}
			q.subject, q.did, q.looked = in.User, "queue-"+in.Act+"-all", in.Dry
			return m.Bulk(q, q.by(), in.MailFilter, *in)
		})).saying(func(in *BulkOrder, out BulkResult) string {
		text := map[string]string{"release": "Released", "delete": "Deleted", "retry": "Tried again"}[in.Act]
		if in.Dry {
			text = "Counted"
		}
		if text = text + ": " + several(out.Mails, "message"); out.Next != 0 {
			text += " so far"
		}
		return text + "."
	})

	MailTrackCall = define(http.MethodGet, "/mail/track", access.View, "queue track",
		"Shows the way of a message, or of mail to an address: what waits, attempts to deliver it, and acts.",
		withMail(func(q *Request, m Mail, in *TrackQuery) (t Track, err error) {
			t = Track{Mails: []MailLine{}, Attempts: []MailStep{}, Acts: []store.Entry{}}
			if (in.ID == 0) == (in.Recipient == "") {
				return t, Invalid("name a message by its id, or a recipient")
			}
			if err := checkLine("recipient", in.Recipient, store.MaxAccount, true); err != nil {
				return t, err
			}
			found, steps, err := m.Track(q, *in, MaxTrack)
			if err != nil {
				return t, err
			}
			t.Mails = pageOf(found, len(found)+1).Mails
			t.Attempts = append(t.Attempts, steps...)
			if in.ID != 0 {
				acts, err := q.backend.Entries(q, store.EntryQuery{Mail: in.ID}, MaxTrack)
				if err != nil {
					return t, err
				}
				t.Acts = append(t.Acts, acts...)
			}
			if len(t.Mails)+len(t.Attempts)+len(t.Acts) == 0 {
				return t, NotFound("nothing is known of it: it never was, or it was delivered longer ago than weir remembers " +
					"(the log knows)")
			}
			return t, nil
		}))
)

// Bulk acts on all messages that match, part by part. progress, which may be nil, is told what was done so far.
func (c *Client) Bulk(ctx context.Context, o BulkOrder, progress func(BulkResult)) (all BulkResult, err error) {
	for {
		r, err := mailBulk.Ask(ctx, c, o)
		if err != nil {
			if all.Mails > 0 {
				err = fmt.Errorf("after %s: %w", several(all.Mails, "message"), err)
			}
			return all, err
		}
		all.Mails, all.Recipients, all.UpTo = all.Mails+r.Mails, all.Recipients+r.Recipients, r.UpTo
		if r.Next == 0 {
			return all, nil
		}
		if progress != nil {
			progress(all)
		}
		o.After, o.UpTo = r.Next, r.UpTo
	}
}
