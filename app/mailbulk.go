package app

import (
	"context"
	"errors"

	"weir/console"
	"weir/mail/spool"
	"weir/store"
)

// spoolFilter turns a filter of the console into one of the spool.
func (d mailOps) spoolFilter(ctx context.Context, f console.MailFilter) spool.Filter {
	now := d.now()
	if f.User != "" {
		f.User = d.named(ctx, f.User)
	}
	return spool.Filter{User: f.User, Sender: f.Sender, Recipient: f.Recipient, Domain: f.Domain, Subject: f.Subject,
		State: f.State, Since: f.Since(now), Before: f.Before(now), Larger: int64(f.Larger), Smaller: int64(f.Smaller)}
}

// Find returns messages that match, from after on, and where the next page begins.
func (d mailOps) Find(ctx context.Context, f console.MailFilter, after store.MailID, limit int) ([]store.Queued,
	store.MailID, error,
) {
	return d.post.Find(ctx, d.spoolFilter(ctx, f), after, limit)
}

// Bulk does one part of an act on all messages that match. A client asks for one part after the other.
func (d mailOps) Bulk(ctx context.Context, by string, f console.MailFilter, o console.BulkOrder) (console.BulkResult,
	error,
) {
	// A part is finished even if the client that asked for it has left.
	r, err := d.post.Bulk(context.WithoutCancel(ctx), d.now(), by, spool.Bulk{Filter: d.spoolFilter(ctx, f),
		Act: spool.Act(o.Act), After: o.After, UpTo: o.UpTo, Dry: o.Dry})
	return console.BulkResult(r), err
}

// Track returns what is known of the message with an id, or of the messages to a recipient: those that still wait, and
// the steps of all that weir remembers.
func (d mailOps) Track(ctx context.Context, q console.TrackQuery, limit int) (found []store.Queued,
	steps []console.MailStep, err error,
) {
	if q.ID != 0 {
		m, err := d.post.Show(ctx, q.ID)
		switch {
		case err == nil:
			found = append(found, m)
		case !errors.Is(err, store.ErrNotFound):
			return nil, nil, err
		}
	} else if found, _, err = d.post.Find(ctx, spool.Filter{Recipient: q.Recipient}, 0, limit); err != nil {
		return nil, nil, err
	}
	trail := d.post.Trail(q.ID, q.Recipient, limit)
	if len(trail) == 0 && len(found) == 0 && q.ID != 0 { // perhaps another server gave the message this id
		trail = d.post.Trail(0, q.ID.String(), limit)
	}
	return found, trail, nil
}
