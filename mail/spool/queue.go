package spool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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

// lookEvery is how often a store is asked how much space it has.
const lookEvery = time.Second

// spacious is a store that knows how many bytes new mail may take, so that there is always space for what becomes of
// the mail it has: of the disk, and of what it has free inside, where texts go that are not in files.
type spacious interface {
	Space() (disk, inside int64)
}

// space is how much new mail the store may take.
type space struct {
	mu           sync.Mutex
	at           time.Time // when the store was asked
	disk, inside int64
}

// take takes space for new mail, or says that there is none: store.ErrFull.
func (q *queue) take(bytes int, filed bool) error {
	kept, ok := q.store.(spacious)
	if !ok {
		return nil
	}
	r, now := &q.space, q.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || now.Sub(r.at) >= lookEvery || now.Before(r.at) {
		r.at = now
		r.disk, r.inside = kept.Space()
	}
	from := &r.disk
	if !filed && r.inside >= int64(bytes) && r.inside > 0 {
		from = &r.inside
	}
	if *from -= int64(bytes); *from < 0 {
		return fmt.Errorf("the room that is left is for what becomes of the mail that is there: %w", store.ErrFull)
	}
	return nil
}

// Full returns store.ErrFull where there is no space for new mail, however short.
func (q *queue) Full() error { return q.take(0, false) }

// incomingText is the text of a new mail. Those that weir writes itself always find space, as long as there is any.
type incomingText struct {
	store.Staged
	queue *queue
}

func (t incomingText) Write(b []byte) (int, error) {
	bytes, filed := len(b), t.Size()+int64(len(b)) > store.MaxInline
	if filed && t.Size() <= store.MaxInline { // all of it goes into the file
		bytes += int(t.Size())
	}
	if err := t.queue.take(bytes, filed); err != nil {
		return 0, err
	}
	return t.Staged.Write(b)
}
