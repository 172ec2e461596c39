package spool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"weir/store"
)

// orphanBatch is how many delayed messages are looked at in one transaction.
const orphanBatch = 500

// holdAll holds all messages of a user in delay queues of any throttle, and returns how many recipients.
func holdAll(tx store.MailTx, user string) (n int, err error) {
	for after := store.MailID(0); ; {
		page, err := tx.Messages(store.MessageQuery{User: user, State: store.Delayed, After: after}, orphanBatch)
		if err != nil {
			return 0, err
		}
		for i := range page {
			k, err := hold(tx, page[i].To, nil)
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

// hold holds the delayed addressees, except for those that are kept, by index.
func hold(tx store.MailTx, rows []store.Addressee, kept []bool) (int, error) {
	return changeRows(tx, rows, func(i int, a *store.Addressee) bool {
		return (kept == nil || !kept[i]) && holdDelayed(a)
	})
}

// sweepDelayed holds recipients that are delayed and in no delay queue, since nothing would ever let them go. That
// should not happen, and is in the audit log. What a view finds is looked at again before it is changed.
func (q *queue) sweepDelayed(ctx context.Context, now time.Time) error {
	for after, more := store.MailID(0), true; more; {
		suspects, err := read(ctx, q.env, func(tx store.MailTx) (suspects []store.MailID, err error) {
			page, err := tx.Messages(store.MessageQuery{State: store.Delayed, After: after}, orphanBatch)
			known := queues{}
			for i := 0; i < len(page) && err == nil; i++ {
				var waiting []bool
				if waiting, err = known.waiting(tx, &page[i]); slices.Contains(waiting, false) {
					suspects = append(suspects, page[i].ID)
				}
				after = page[i].ID
			}
			more = len(page) == orphanBatch
			return suspects, err
		})
		if err == nil && len(suspects) > 0 {
			err = q.update(ctx, func(tx store.MailTx) error { return holdOrphans(tx, now, suspects) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holdOrphans holds recipients of these messages that are delayed and in no delay queue.
func holdOrphans(tx store.MailTx, now time.Time, ids []store.MailID) error {
	known := queues{}
	for _, id := range ids {
		m, err := readMail(tx, id)
		if isNotFound(err) {
			continue // it has left in the meantime
		}
		if err != nil {
			return err
		}
		waiting, err := known.waiting(tx, &m)
		if err != nil {
			return err
		}
		n, err := hold(tx, m.To, waiting)
		if err == nil && n > 0 {
			err = tx.Log(entry(now, weirItself, "held", m.User, id, recipientsText(n)+": in no delay queue"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queues are the delay queues of users, by user and message. nil: unknown, since a newer weir wrote it.
type queues map[string]map[store.MailID]mailItems

// waiting reports for each addressee of a message whether it is in a delay queue, or need not be.
func (q queues) waiting(tx store.MailTx, m *store.Queued) ([]bool, error) {
	in, known := q[m.User]
	if !known {
		var err error
		if in, err = queued(tx, m.User); err != nil {
			return nil, err
		}
		q[m.User] = in
	}
	one := in[m.ID]
	waiting := one.among(m.To)
	for i := range m.To {
		waiting[i] = waiting[i] || in == nil || m.To[i].State != store.Delayed
	}
	return waiting, nil
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
			continue // it begins anew
		}
		for _, one := range byMail(m.state.Waiting()) {
			maps.Copy(one.numbers, all[one.mail].numbers)
			all[one.mail] = one
		}
	}
	return all, nil
}
