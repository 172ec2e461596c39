package spool

import (
	"context"
	"sync/atomic"

	"weir/store"
)

// A queue takes mail over and keeps it, judges it in the transaction that stores it, and runs the clocks of users.
type queue struct {
	*env
	delivery *delivery
	reach    *reaches
	space    space
	changed  atomic.Bool // the configuration has, and not everybody was looked at yet
}

// Stage returns where the text of a mail is written to. Writing fails with store.ErrFull where the disk is too full.
func (q *queue) Stage() store.Staged { return incomingText{q.store.Stage(), q} }

// Queue returns up to limit mails that match, with their remaining addressees.
func (q *queue) Queue(ctx context.Context, query store.LetterQuery, limit int) ([]store.Queued, error) {
	return read(ctx, q.env, func(tx store.MailTx) ([]store.Queued, error) { return tx.Letters(query, limit) })
}

// Count returns how many mails and addressees there are, by state.
func (q *queue) Count(ctx context.Context) (letters int, addressees map[store.State]int, err error) {
	err = q.store.View(ctx, func(tx store.MailTx) error {
		letters, addressees, err = tx.Count()
		return err
	})
	return letters, addressees, err
}

// Show returns a mail with its remaining addressees, or store.ErrNotFound.
func (q *queue) Show(ctx context.Context, id store.MailID) (store.Queued, error) {
	return read(ctx, q.env, func(tx store.MailTx) (store.Queued, error) { return readMail(tx, id) })
}

func readMail(tx store.MailTx, id store.MailID) (mail store.Queued, err error) {
	if mail.Letter, err = tx.Letter(id); err != nil {
		return mail, err
	}
	mail.To, err = tx.Addressees(id)
	return mail, err
}

// Audit returns up to limit entries of the audit log, the latest first, before one of them (0: from the end).
func (q *queue) Audit(ctx context.Context, before int64, limit int) ([]store.Entry, error) {
	return read(ctx, q.env, func(tx store.MailTx) ([]store.Entry, error) { return tx.Entries(before, limit) })
}

// Users returns up to limit users whose names come after one.
func (q *queue) Users(ctx context.Context, after string, limit int) ([]store.User, error) {
	return read(ctx, q.env, func(tx store.MailTx) ([]store.User, error) { return tx.Users(after, limit) })
}
