package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/store"
)

// orphanBatch is how many delayed mails are looked at in one go.
const orphanBatch = 500

// holdAll holds everything of a user that waits in a delay queue of any throttle, and returns how many recipients.
func holdAll(tx store.MailTx, user string) (n int, err error) {
	for after := store.MailID(0); ; {
		page, err := tx.Letters(store.LetterQuery{User: user, State: store.Delayed, After: after}, orphanBatch)
		if err != nil {
			return 0, err
		}
		for i := range page {
			k, err := hold(tx, page[i].To, func(int) bool { return true })
			if err != nil {
				return 0, err
			}
			n += k
			after = page[i].ID
		}
		if len(page) < orphanBatch {
			return n, nil
		}
	}
}

// hold holds the addressees that are delayed and match.
func hold(tx store.MailTx, rows []store.Addressee, match func(i int) bool) (int, error) {
	return changeRows(tx, rows, func(i int, a *store.Addressee) bool {
		is := a.State == store.Delayed && match(i)
		if is {
			a.State = store.Held
		}
		return is
	})
}

// sweepDelayed holds what is delayed and in no delay queue, as nothing would ever let it go. That should not happen;
// operators find it in the audit log. What a view finds is looked at again before it is changed.
func (q *queue) sweepDelayed(ctx context.Context, now time.Time) error {
	for after, more := store.MailID(0), true; more; {
		var suspects []store.MailID
		err := q.store.View(ctx, func(tx store.MailTx) error {
			page, err := tx.Letters(store.LetterQuery{State: store.Delayed, After: after}, orphanBatch)
			if err != nil {
				return err
			}
			known := queues{}
			for i := range page {
				left, err := known.leftOut(tx, &page[i])
				if err != nil {
					return err
				}
				if len(left) > 0 {
					suspects = append(suspects, page[i].ID)
				}
				after = page[i].ID
			}
			more = len(page) == orphanBatch
			return nil
		})
		if err != nil {
			return err
		}
		if len(suspects) == 0 {
			continue
		}
		if err := q.update(ctx, func(tx store.MailTx) error { return holdOrphans(tx, now, suspects) }); err != nil {
			return err
		}
	}
	return nil
}

// holdOrphans holds what is delayed of these mails and in no delay queue.
func holdOrphans(tx store.MailTx, now time.Time, ids []store.MailID) error {
	known := queues{}
	for _, id := range ids {
		l, err := tx.Letter(id)
		if errors.Is(err, store.ErrNotFound) {
			continue // it has left meanwhile
		}
		if err != nil {
			return err
		}
		q := store.Queued{Letter: l}
		if q.To, err = tx.Addressees(id); err != nil {
			return err
		}
		left, err := known.leftOut(tx, &q)
		if err != nil {
			return err
		}
		n, err := hold(tx, q.To, func(i int) bool { return left[i] })
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		if err := tx.Log(entry(now, weirItself, "held", l.User, id,
			fmt.Sprintf("%d recipient%s: in no delay queue", n, plural(n)))); err != nil {
			return err
		}
	}
	return nil
}

// queues are what is in the delay queues of users, by user and mail. nil: unknown, as a newer weir wrote it.
type queues map[string]map[store.MailID]mailItems

// leftOut returns the addressees of a mail that are delayed and in no delay queue.
func (q queues) leftOut(tx store.MailTx, l *store.Queued) (map[int]bool, error) {
	in, known := q[l.User]
	if !known {
		var err error
		if in, err = queued(tx, l.User); err != nil {
			return nil, err
		}
		q[l.User] = in
	}
	if in == nil {
		return nil, nil
	}
	one := in[l.ID]
	waiting := one.among(l.To)
	left := map[int]bool{}
	for i := range l.To {
		if l.To[i].State == store.Delayed && !waiting[i] {
			left[i] = true
		}
	}
	return left, nil
}

func queued(tx store.MailTx, user string) (map[store.MailID]mailItems, error) {
	memories, err := tx.Memories(user, maxMemories)
	if err != nil {
		return nil, err
	}
	all := map[store.MailID]mailItems{}
	for i := range memories {
		var m memory
		switch err := m.read(memories[i].State); {
		case errors.Is(err, store.ErrNewer):
			return nil, nil
		case err != nil:
			continue // it is begun anew
		}
		for _, one := range byMail(m.state.Waiting()) {
			if before, ok := all[one.mail]; ok {
				for number := range before.numbers {
					one.numbers[number] = true
				}
			}
			all[one.mail] = one
		}
	}
	return all, nil
}
