package spool

import (
	"context"
	"errors"
	"time"

	"weir/store"
)

// keepStamps is how long a spent stamp is remembered after its end, in case the clock is set back.
const keepStamps = time.Hour

// Spent reports whether a stamp is spent. Another message may spend it before Accept does.
func (q *queue) Spent(ctx context.Context, nonce store.StampNonce) (bool, error) {
	return read(ctx, q.env, func(tx store.MailTx) (bool, error) { return tx.Spent(nonce) })
}

// spend spends the stamps of a message, and notes the recipients that they pay for.
func (in *incoming) spend(tx store.MailTx) error {
	in.paid = nil
	var known map[store.StampNonce]bool // stamps of this message, and whether they were fresh
	var crowded error                   // no more can be noted
	for i := range in.e.To {
		to := &in.e.To[i]
		if to.Stamp == (Stamp{}) {
			if to.Required {
				return ErrUnpaid
			}
			continue
		}
		fresh, seen := known[to.Stamp.Nonce]
		if !seen {
			var err error
			fresh, err = in.queue.spend(tx, in.now, to.Stamp)
			if errors.Is(err, store.ErrCrowded) {
				crowded = err
			} else if err != nil {
				return err
			}
			if in.paid == nil {
				in.paid, known = make([]bool, len(in.e.To)), map[store.StampNonce]bool{}
			}
			known[to.Stamp.Nonce] = fresh
		}
		switch {
		case fresh:
			in.paid[i] = true
			in.receipt.Paid++
		case to.Required && crowded != nil:
			return crowded
		case to.Required:
			return ErrUnpaid
		}
	}
	return nil
}

// spend spends one stamp. If there are too many it removes old ones.
func (q *queue) spend(tx store.MailTx, now time.Time, k Stamp) (bool, error) {
	fresh, err := tx.Spend(k, q.opts.Stamps)
	if !errors.Is(err, store.ErrCrowded) {
		return fresh, err
	}
	n, failed := tx.PruneStamps(now.Add(-keepStamps), pruneBatch)
	switch {
	case failed != nil:
		return false, failed
	case n > 0:
		return tx.Spend(k, q.opts.Stamps)
	}
	q.tell.Bounded(BoundStamps)
	return false, err
}

func (q *queue) pruneStamps(ctx context.Context, now time.Time) error {
	for removed := pruneBatch; removed == pruneBatch; { // few at a time, since messages wait
		if err := q.update(ctx, func(tx store.MailTx) (err error) {
			removed, err = tx.PruneStamps(now.Add(-keepStamps), pruneBatch)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
