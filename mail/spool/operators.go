package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/store"
)

// Queue returns up to limit mails that match, with those whom they still have to reach.
func (s *Spool) Queue(ctx context.Context, q store.LetterQuery, limit int) (list []store.Queued, err error) {
	err = s.store.View(ctx, func(tx store.MailTx) error {
		list, err = tx.Letters(q, limit)
		return err
	})
	return list, err
}

// Count returns how many mails and addressees there are, by state.
func (s *Spool) Count(ctx context.Context) (letters int, addressees map[store.State]int, err error) {
	err = s.store.View(ctx, func(tx store.MailTx) error {
		letters, addressees, err = tx.Count()
		return err
	})
	return letters, addressees, err
}

// Show returns a mail with those whom it still has to reach, or store.ErrNotFound.
func (s *Spool) Show(ctx context.Context, id store.MailID) (q store.Queued, err error) {
	err = s.store.View(ctx, func(tx store.MailTx) error {
		if q.Letter, err = tx.Letter(id); err != nil {
			return err
		}
		q.To, err = tx.Addressees(id)
		return err
	})
	return q, err
}

// Audit returns up to limit entries of the audit log, the latest first, before one of them (0: from the end).
func (s *Spool) Audit(ctx context.Context, before int64, limit int) (list []store.Entry, err error) {
	err = s.store.View(ctx, func(tx store.MailTx) error {
		list, err = tx.Entries(before, limit)
		return err
	})
	return list, err
}

// ReleaseMails lets mails go, whoever sent them, and returns how many recipients that was. What is not there is left
// out.
func (s *Spool) ReleaseMails(ctx context.Context, now time.Time, by string, ids []store.MailID) (recipients int,
	err error) {
	return s.actOnAll(ctx, now, by, ids, releaseAny)
}

// DeleteMails removes mails, whoever sent them, and returns how many recipients that was. What has come to its final
// dot is left alone. Nobody is told.
func (s *Spool) DeleteMails(ctx context.Context, now time.Time, by string, ids []store.MailID) (recipients int,
	err error) {
	return s.actOnAll(ctx, now, by, ids, removeAny)
}

func (s *Spool) actOnAll(ctx context.Context, now time.Time, by string, ids []store.MailID, v verb) (n int, err error) {
	var results []result
	err = s.update(ctx, func(tx store.MailTx) error {
		n, results = 0, nil
		byUser, users, err := whose(tx, ids)
		if err != nil {
			return err
		}
		for _, user := range users {
			k, r, err := s.actIn(tx, now, by, user, Selection{Mails: byUser[user]}, v)
			if err != nil {
				return err
			}
			n += k
			results = append(results, r...)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.acted(ctx, now, v, n, results)
	return n, nil
}

// whose sorts mails by user.
func whose(tx store.MailTx, ids []store.MailID) (byUser map[string][]store.MailID, users []string, err error) {
	if len(ids) > maxAct {
		return nil, nil, fmt.Errorf("%d mails at once, at most %d: %w", len(ids), maxAct, store.ErrTooLarge)
	}
	byUser = map[string][]store.MailID{}
	for _, id := range ids {
		l, err := tx.Letter(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if byUser[l.User] == nil {
			users = append(users, l.User)
		}
		byUser[l.User] = append(byUser[l.User], id)
	}
	return byUser, users, nil
}

// RetryMails tries mails again now that would be tried later, and returns how many recipients that was. None of them:
// all that the spool has, up to a bound.
func (s *Spool) RetryMails(ctx context.Context, now time.Time, ids []store.MailID) (recipients int, err error) {
	n := 0
	err = s.update(ctx, func(tx store.MailTx) error {
		n = 0
		list := ids
		if len(list) == 0 {
			all, err := tx.Letters(store.LetterQuery{State: store.Ready}, maxAct)
			if err != nil {
				return err
			}
			for i := range all {
				list = append(list, all[i].ID)
			}
		}
		for _, id := range list {
			rows, err := tx.Addressees(id)
			if err != nil {
				return err
			}
			for _, a := range rows {
				if a.State != store.Ready || a.Owner != "" || !a.Due.After(now) {
					continue
				}
				a.Due = now
				if err := tx.PutAddressees(a); err != nil {
					return err
				}
				n++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, s.handDue(ctx, now)
}
