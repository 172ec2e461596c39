package spool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/store"
)

// A queue accepts messages, judges them in the transaction that stores them, and runs the clocks of users.
type queue struct {
	*env
	delivery *delivery
	reach    *reaches
	space    space
	changed  atomic.Bool // the configuration has changed, and not all users were looked at
}

// Stage returns a writer for the text of a message. It returns store.ErrFull if the disk is too full.
func (q *queue) Stage() store.Staged { return incomingText{q.store.Stage(), q} }

// Queue returns up to limit messages that match, with their remaining addressees.
func (q *queue) Queue(ctx context.Context, query store.MessageQuery, limit int) ([]store.Queued, error) {
	return read(ctx, q.env, func(tx store.MailTx) ([]store.Queued, error) { return tx.Messages(query, limit) })
}

// Count returns how many messages there are, and how many addressees by state.
func (q *queue) Count(ctx context.Context) (messages int, addressees map[store.State]int, err error) {
	err = q.store.View(ctx, func(tx store.MailTx) error {
		messages, addressees, err = tx.Count()
		return err
	})
	return messages, addressees, err
}

// Show returns a message with its remaining addressees, or store.ErrNotFound.
func (q *queue) Show(ctx context.Context, id store.MailID) (store.Queued, error) {
	return read(ctx, q.env, func(tx store.MailTx) (store.Queued, error) { return readMail(tx, id) })
}

func readMail(tx store.MailTx, id store.MailID) (mail store.Queued, err error) {
	if mail.Message, err = tx.Message(id); err != nil {
		return mail, err
	}
	mail.To, err = tx.Addressees(id)
	return mail, err
}

// Audit returns up to limit entries of the audit log, the latest first, before one of them (0: from the end).
func (q *queue) Audit(ctx context.Context, before int64, limit int) ([]store.Entry, error) {
	return read(ctx, q.env, func(tx store.MailTx) ([]store.Entry, error) {
		return tx.Entries(store.EntryQuery{Before: before}, limit)
	})
}

// Users returns up to limit users whose names come after one.
func (q *queue) Users(ctx context.Context, after string, limit int) ([]store.User, error) {
	return read(ctx, q.env, func(tx store.MailTx) ([]store.User, error) { return tx.Users(after, limit) })
}

// lookEvery is how often a store is asked how much space it has.
const lookEvery = time.Second

// spacious is a store that knows how many bytes new messages may take: on the disk, and in the free part of its own
// file, for texts without a file. The rest is for changes of the messages that it has.
type spacious interface {
	Space() (disk, inside int64)
}

// space is how many bytes new messages may take.
type space struct {
	mu           sync.Mutex
	at           time.Time // when the store was asked
	disk, inside int64
}

// take takes space for a new message, or returns store.ErrFull.
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

// Full returns store.ErrFull if there is no space for any new message.
func (q *queue) Full() error { return q.take(0, false) }

// incomingText is the text of a new message. Messages of weir itself may use the rest of the space.
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
