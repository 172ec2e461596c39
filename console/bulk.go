package console

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"weir"
	"weir/console/access"
	"weir/store"
)

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
type BulkResult struct {
	Mails      int          `json:"messages"`   // that it was done to
	Recipients int          `json:"recipients"` // of them
	UpTo       store.MailID `json:"up_to,omitempty"`
	Next       store.MailID `json:"next,omitempty"` // where the next part begins; left out: there is none
}

// A TrackQuery asks for the way of a message, or of mail to an address.
type TrackQuery struct {
	ID store.MailID `json:"id,omitempty"`
	// a part of an address; or a Message-ID, or the id of a message at the server before or after
	Recipient string `json:"recipient,omitempty"`
}

// A MailStep is what became of a message, or of one of its recipients, as it is in the log.
type MailStep struct {
	At      time.Time    `json:"at"`
	Mail    store.MailID `json:"mail"`
	ID      string       `json:"message_id,omitempty"`
	User    string       `json:"user,omitempty"`
	Address string       `json:"address,omitempty"` // of the recipient; left out: of several
	// accepted, held, released, deleted, expired, delivered, deferred, failed or ambiguous
	Result string `json:"result"`
	Status string `json:"status,omitempty"` // what the next server said, or how many recipients it is about
	Hop    string `json:"hop,omitempty"`    // the next server
	// the id by which another server knows it: the next one, or for accepted the one before
	Queue string `json:"queue,omitempty"`
}

// A Track is what is known of the way of mail, up to MaxTrack of each.
type Track struct {
	Mails    []MailLine    `json:"messages"` // that wait
	Attempts []MailStep    `json:"attempts"` // the latest first; the last ten thousand are known, also after a restart
	Acts     []store.Entry `json:"acts"`     // of the audit log, the latest first; only of single messages
}

var (
	mailBulk = define(Call{Method: http.MethodPost, Path: "/mail/bulk", Role: access.Act,
		Commands: []string{"queue release --all", "queue delete --all", "queue retry --all"},
		Summary:  "Acts on a part of all messages that match a filter."},
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

	MailTrackCall = define(Call{Method: http.MethodGet, Path: "/mail/track", Role: access.View,
		Commands: []string{"queue track"},
		Summary:  "Shows the way of a message, or of mail to an address: what waits, attempts to deliver it, and acts."},
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
