package spool

import (
	"context"
	"sync/atomic"
	"weir/store"
)

// A queue takes mail over and keeps it. It judges mail by the throttles, in the transaction that stores it, and runs
// the clocks of users.
type queue struct {
	*env
	delivery *delivery
	reach    *reaches
	space    space
	changed  atomic.Bool // the configuration has, and not everybody was looked at yet
}

// Stage returns a place for its text. Writing to it fails with store.ErrFull where there is no space for new mail.
func (q *queue) Stage() store.Staged { return incomingText{q.store.Stage(), q} }

// Queue returns up to limit mails that match, with those whom they still have to reach.
func (q *queue) Queue(ctx context.Context, query store.LetterQuery, limit int) (list []store.Queued, err error) {
	err = q.store.View(ctx, func(tx store.MailTx) error {
		list, err = tx.Letters(query, limit)
		return err
	})
	return list, err
}

// Count returns how many mails and addressees there are, by state.
func (q *queue) Count(ctx context.Context) (letters int, addressees map[store.State]int, err error) {
	err = q.store.View(ctx, func(tx store.MailTx) error {
		letters, addressees, err = tx.Count()
		return err
	})
	return letters, addressees, err
}

// Show returns a mail with those whom it still has to reach, or store.ErrNotFound.
func (q *queue) Show(ctx context.Context, id store.MailID) (mail store.Queued, err error) {
	err = q.store.View(ctx, func(tx store.MailTx) error {
		mail, err = readMail(tx, id)
		return err
	})
	return mail, err
}

// readMail reads a mail with those whom it still has to reach.
func readMail(tx store.MailTx, id store.MailID) (mail store.Queued, err error) {
	if mail.Letter, err = tx.Letter(id); err != nil {
		return mail, err
	}
	mail.To, err = tx.Addressees(id)
	return mail, err
}

// Audit returns up to limit entries of the audit log, the latest first, before one of them (0: from the end).
func (q *queue) Audit(ctx context.Context, before int64, limit int) (list []store.Entry, err error) {
	err = q.store.View(ctx, func(tx store.MailTx) error {
		list, err = tx.Entries(before, limit)
		return err
	})
	return list, err
}

// Users returns up to limit users whose names come after one.
func (q *queue) Users(ctx context.Context, after string, limit int) (list []store.User, err error) {
	err = q.store.View(ctx, func(tx store.MailTx) error {
		list, err = tx.Users(after, limit)
		return err
	})
	return list, err
}
