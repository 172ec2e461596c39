package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/store"
)

// A desk does what users and operators want done: with their mail, with users, and with tickets.
type desk struct {
	*env
	delivery *delivery
	reach    *reaches
	queue    *queue
}

// ReleaseMails lets mails of any user go, and returns how many recipients that was. What is not there is left out.
func (d *desk) ReleaseMails(ctx context.Context, now time.Time, by string, ids []store.MailID) (recipients int,
	err error) {
	return d.actOnAll(ctx, now, by, ids, releaseAny)
}

// DeleteMails removes mails of any user that are not being sent, and returns how many recipients. Senders are not told.
func (d *desk) DeleteMails(ctx context.Context, now time.Time, by string, ids []store.MailID) (recipients int,
	err error) {
	return d.actOnAll(ctx, now, by, ids, removeAny)
}

func (d *desk) actOnAll(ctx context.Context, now time.Time, by string, ids []store.MailID, v verb) (n int, err error) {
	var results []result
	err = d.update(ctx, func(tx store.MailTx) error {
		n, results = 0, nil
		byUser, users, err := whose(tx, ids)
		if err != nil {
			return err
		}
		for _, user := range users {
			k, r, err := d.actIn(tx, now, by, user, Selection{Mails: byUser[user]}, v)
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
	d.acted(ctx, now, v, n, results)
	return n, nil
}

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

// RetryMails tries mails now, or all up to a bound without ids, and returns how many recipients that was.
func (d *desk) RetryMails(ctx context.Context, now time.Time, ids []store.MailID) (recipients int, err error) {
	n := 0
	err = d.update(ctx, func(tx store.MailTx) error {
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
			k, err := changeRows(tx, rows, func(_ int, a *store.Addressee) bool {
				later := a.State == store.Ready && a.Owner == "" && a.Due.After(now)
				if later {
					a.Due = now
				}
				return later
			})
			if err != nil {
				return err
			}
			n += k
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, d.delivery.handDue(ctx, now)
}
