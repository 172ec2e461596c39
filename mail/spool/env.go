package spool

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/internal/clock"
	"weir/internal/logs"
	"weir/internal/shown"
	"weir/store"
)

// An env is what all parts of a spool share.
type env struct {
	opts  Options
	store store.Mail
	clock clock.Clock
	log   *slog.Logger
	tell  Observer
	keys  hasher
	ids   store.MailIDs
	began time.Time
	halt  context.Context // ends when nothing new is begun any more

	gates   atomic.Pointer[gates]
	stopped userSet

	wake chan struct{}
	next atomic.Int64 // when RunDue last said that something is due, in nanoseconds; 0: never
}

func newEnv(o Options) *env {
	e := &env{opts: o, store: o.Store, clock: o.Clock, log: o.Log, tell: o.Observer, keys: newHasher(o.Secret),
		wake: make(chan struct{}, 1), began: o.Clock.Now(), stopped: newStopped()}
	_, _ = rand.Read(e.ids.Start[:])
	e.gates.Store(&gates{})
	return e
}

// NewID returns an id for a new message.
func (e *env) NewID(now time.Time) store.MailID { return e.ids.Next(now) }

// update runs a transaction to its end, even if ctx ends: the caller has to know what was stored.
func (e *env) update(ctx context.Context, f func(store.MailTx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.store.Update(context.WithoutCancel(ctx), f)
}

// complain logs an error, but not every time: the log must not fill the disk.
func (e *env) complain(line *logs.Line, message string, attrs ...any) {
	if more, ok := line.Now(e.clock.Now().Sub(e.began)); ok {
		e.log.Error(message, append(attrs, "unlogged_before", more)...)
	}
}

// read returns what f finds in the store.
func read[T any](ctx context.Context, e *env, f func(store.MailTx) (T, error)) (v T, err error) {
	err = e.store.View(ctx, func(tx store.MailTx) error {
		v, err = f(tx)
		return err
	})
	return v, err
}

// User returns a user of the store, or store.ErrNotFound.
func (e *env) User(ctx context.Context, name string) (store.User, error) {
	user, err := e.Account(ctx, name)
	if err == nil && user.Made.IsZero() {
		err = store.ErrNotFound
	}
	return user, err
}

// Account returns a user. Made is zero of one that the store does not have.
func (e *env) Account(ctx context.Context, name string) (store.User, error) {
	return read(ctx, e, func(tx store.MailTx) (store.User, error) { return e.userOf(tx, name) })
}

// userOf reads a user, with a contact by the rule for those who have none. One that the store does not have has only a
// name, and perhaps such a contact.
func (e *env) userOf(tx store.MailTx, name string) (store.User, error) {
	user, err := tx.User(name)
	if isNotFound(err) {
		user, err = store.User{Name: name}, nil
	}
	if user.Contact == "" && e.opts.Contact != nil && !byAddress(name) {
		user.Contact = e.opts.Contact(name)
	}
	return user, err
}

func (e *env) wakeUp() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// expect wakes Run if something is due before the next round. The zero time is never.
func (e *env) expect(due time.Time) {
	if due.IsZero() {
		return
	}
	if next := e.next.Load(); next == 0 || due.UnixNano() < next {
		e.wakeUp()
	}
}

// earlier is the earlier of two times. Zero times do not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// weirItself is in entries of the audit log that no person has caused.
const weirItself = "weir"

// changeRows stores the addressees of rows that f changes, and returns how many.
func changeRows(tx store.MailTx, rows []store.Addressee, f func(i int, a *store.Addressee) bool) (int, error) {
	var changed []store.Addressee
	for i := range rows {
		if f(i, &rows[i]) {
			changed = append(changed, rows[i])
		}
	}
	return len(changed), tx.PutAddressees(changed...)
}

func logAll(tx store.MailTx, entries []store.Entry) error {
	for _, e := range entries {
		if err := tx.Log(e); err != nil {
			return err
		}
	}
	return nil
}

func entry(now time.Time, by, what, user string, mail store.MailID, text string) store.Entry {
	return store.Entry{At: now, By: shown.Cut(by, store.MaxUser), What: what, User: user, Mail: mail,
		Text: shown.Cut(text, store.MaxEntryText)}
}

func recipientsText(n int) string {
	if n == 1 {
		return "1 recipient"
	}
	return fmt.Sprintf("%d recipients", n)
}
