package spool

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"
	"weir/internal/clock"
	"weir/internal/loglimit"
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
	halt  context.Context // over once nothing new is begun

	gates   atomic.Pointer[gates]
	stopped userSet

	wake chan struct{}
	next atomic.Int64 // what RunDue last said, in nanoseconds; 0: nothing
}

func newEnv(o Options) *env {
	e := &env{opts: o, store: o.Store, clock: o.Clock, log: o.Log, tell: o.Observer, keys: newHasher(o.Secret),
		wake: make(chan struct{}, 1), began: o.Clock.Now(), stopped: newStopped()}
	_, _ = rand.Read(e.ids.Start[:])
	e.gates.Store(&gates{})
	return e
}

// newOwner names a run of the process.
func newOwner() string {
	var chance [8]byte
	_, _ = rand.Read(chance[:])
	return hex.EncodeToString(chance[:])
}

// NewID returns an id for a mail that is coming in.
func (e *env) NewID(now time.Time) store.MailID { return e.ids.Next(now) }

// update runs a transaction to its end. It is not broken off half-way when a caller leaves, as nobody could say then
// what was stored.
func (e *env) update(ctx context.Context, f func(store.MailTx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.store.Update(context.WithoutCancel(ctx), f)
}

// complain puts a line into the log, but not every time: a disk that is full is not to be filled with that.
func (e *env) complain(line *loglimit.Line, message string, attrs ...any) {
	if more, ok := line.Now(e.clock.Now().Sub(e.began)); ok {
		e.log.Error(message, append(attrs, "unlogged_before", more)...)
	}
}

// User returns a user of the store, or store.ErrNotFound.
func (e *env) User(ctx context.Context, name string) (user store.User, err error) {
	err = e.store.View(ctx, func(tx store.MailTx) error {
		user, err = tx.User(name)
		return err
	})
	return user, err
}

// Wake is told when there is something to do for RunDue earlier than it said. Run listens to it; listen to it where
// RunDue is called by somebody else.
func (e *env) Wake() <-chan struct{} { return e.wake }

func (e *env) wakeUp() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// expect is told that something is due at a time; zero: nothing.
func (e *env) expect(due time.Time) {
	if due.IsZero() {
		return
	}
	if next := e.next.Load(); next == 0 || due.UnixNano() < next {
		e.wakeUp()
	}
}

// earlier is the earlier of two times; one that is missing does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// weirItself is who did what nobody else did.
const weirItself = "weir"

// entry is one of the audit log.
func entry(now time.Time, by, what, user string, mail store.MailID, text string) store.Entry {
	return store.Entry{At: now, By: cut(by, store.MaxUser), What: what, User: user, Mail: mail,
		Text: cut(text, store.MaxEntryText)}
}

// cut shortens a text to so many bytes, without breaking a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most]
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
