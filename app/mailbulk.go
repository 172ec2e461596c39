package app

import (
	"context"
	"errors"

	"weir/console"
	"weir/mail/spool"
	"weir/store"
)

// spoolFilter is a filter as the spool knows it.
func (d mailOps) spoolFilter(ctx context.Context, f console.MailFilter) spool.Filter {
	now := d.now()
	if f.User != "" {
		f.User = d.named(ctx, f.User)
	}
	return spool.Filter{User: f.User, Sender: f.Sender, Recipient: f.Recipient, Domain: f.Domain, Subject: f.Subject,
		State: f.State, Since: f.Since(now), Before: f.Before(now), Larger: int64(f.Larger), Smaller: int64(f.Smaller)}
}

func (d mailOps) Find(ctx context.Context, f console.MailFilter, after store.MailID, limit int) ([]store.Queued,
	store.MailID, error,
) {
	return d.post.Find(ctx, d.spoolFilter(ctx, f), after, limit)
}

// Bulk acts on a part of all messages that match.
func (d mailOps) Bulk(ctx context.Context, by string, f console.MailFilter, o console.BulkOrder) (console.BulkResult,
	error,
) {
	// Who leaves does not break off a part; the next one is not begun.
	r, err := d.post.Bulk(context.WithoutCancel(ctx), d.now(), by, spool.Bulk{Filter: d.spoolFilter(ctx, f),
		Act: spool.Act(o.Act), After: o.After, UpTo: o.UpTo, Dry: o.Dry})
	return console.BulkResult(r), err
}

// Track returns what waits, and attempts to deliver, of a message or to an address.
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
	if len(trail) == 0 && len(found) == 0 && q.ID != 0 { // it may be how another server calls it
		trail = d.post.Trail(0, q.ID.String(), limit)
	}
	for _, s := range trail {
		steps = append(steps, console.MailStep(s))
	}
	return found, steps, nil
}
