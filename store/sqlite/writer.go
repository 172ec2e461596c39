package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"weir/store"
)

// Bounds of one commit, so that the first in it does not wait for long.
const (
	maxGroup = 1024
	maxRows  = 20_000
)

// A write is what one caller wants to have written: a function that the writer runs in a transaction.
type write struct {
	tx    *tx // nil: the writer's own, where no caller can keep it
	ctx   context.Context
	rows  int // how many statements it is, about
	f     func(*tx) error
	gone  bool         // f has ended the goroutine that ran it
	state atomic.Int32 // waiting, taken or left
	err   error
	done  chan struct{} // closed when err is final
	over  bool          // it is; for the writer alone
}

// States of a write. A caller may leave one that the writer has not taken yet.
const (
	waiting = iota
	taken
	left
)

func (w *write) end(err error) {
	w.err, w.over = err, true
	close(w.done)
}

type counts struct{ writes, commits, failures, refused atomic.Uint64 }

// Stats is the state of the writer.
type Stats struct {
	Waiting  int    `json:"waiting"`  // writes that wait for a commit
	Writes   uint64 `json:"writes"`   // calls that were committed
	Commits  uint64 `json:"commits"`  // transactions that took
	Failures uint64 `json:"failures"` // calls that failed
	Refused  uint64 `json:"refused"`  // calls that could not wait because the queue was full
}

// Stats returns the state of the writer.
func (s *Store) Stats() Stats {
	return Stats{Waiting: len(s.queue), Writes: s.counts.writes.Load(), Commits: s.counts.commits.Load(),
		Failures: s.counts.failures.Load(), Refused: s.counts.refused.Load()}
}

// errGone is the error of a write whose function never returns.
var errGone = errors.New("the function of an update has ended its goroutine")

// run runs the function. A panic is an error of its own.
func (w *write) run(s *session) (err error) {
	*w.tx = tx{f: w.tx.f, session: s, files: w.tx.files, texts: w.tx.texts, source: w.tx.source,
		writable: true}
	returned := false
	defer func() {
		w.tx.session = nil
		if returned {
			return
		}
		if v := recover(); v != nil {
			err = fmt.Errorf("the function of an update has panicked: %v\n%s", v, debug.Stack())
		} else {
			w.gone = true
		}
	}()
	err = w.f(w.tx)
	returned = true
	return cmp.Or(err, w.tx.spoilt)
}

// write hands a function to the writer and waits until it is committed. When ctx ends first, nothing is written if the
// function was still waiting. If it was already under way, the outcome is unknown.
func (s *Store) write(ctx context.Context, rows int, f func(*tx) error) error {
	w, err := s.enqueue(ctx, nil, rows, f)
	if err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeAll writes a batch, all or nothing.
func writeAll[T interface{ Validate() error }](ctx context.Context, s *Store, all []T,
	one func(*tx, *T) error) error {
	if err := store.CheckBatch(all); err != nil {
		return err
	}
	if len(all) == 0 {
		return s.alive()
	}
	all = slices.Clone(all) // the caller may leave before it is written
	return s.write(ctx, len(all), func(t *tx) error {
		for i := range all {
			if err := one(t, &all[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) enqueue(ctx context.Context, t *tx, rows int, f func(*tx) error) (*write, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &write{tx: t, ctx: ctx, rows: rows, f: f, done: make(chan struct{})}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	select {
	case s.queue <- w:
		return w, nil
	default:
		s.counts.refused.Add(1)
		return nil, fmt.Errorf("%s: %w (%d)", s.files.db, store.ErrTooMany, cap(s.queue))
	}
}

// run is the writer. It ends when the queue is closed and empty. It begins with a group that another one left undone.
func (s *Store) run(group ...*write) {
	ended := false
	defer func() {
		if ended {
			close(s.idle)
		} else { // a caller's function has ended the goroutine that ran it: this one
			go s.run(s.undone(group)...)
		}
	}()
	s.commit(group)
	for w := range s.queue {
		// Callers that were just answered often write again at once: this lets them into this commit.
		runtime.Gosched()
		group = s.gather(w)
		s.commit(group)
	}
	ended = true
}

// undone returns the writes of a group that have no answer yet, after it has answered the one that ended the writer.
func (s *Store) undone(group []*write) []*write {
	return slices.DeleteFunc(group, func(w *write) bool {
		if w.gone && !w.over {
			s.counts.failures.Add(1)
			w.end(errGone)
		}
		return w.over
	})
}

// gather takes what waits behind a write, without waiting itself. It drops writes whose callers have left.
func (s *Store) gather(w *write) (group []*write) {
	rows := 0
	for more := true; more; {
		if err := w.ctx.Err(); err != nil {
			w.end(err)
		} else if w.state.CompareAndSwap(waiting, taken) {
			group = append(group, w)
			rows += w.rows
		}
		if len(group) >= maxGroup || rows >= maxRows {
			return group
		}
		select {
		case w, more = <-s.queue:
		default:
			return group
		}
	}
	return group
}

// commit writes a group and answers all of its callers, in one transaction unless it is too much for one.
func (s *Store) commit(group []*write) {
	for len(group) > 0 {
		group = group[s.commitFirst(group):]
	}
}

// commitFirst writes the first writes of a group in one transaction, answers them, and returns how many they are. If
// the disk has no space for the log to grow, the log is carried over so that it begins anew. If that does not help,
// each write is tried alone: there may be space for small ones, and a removal makes some.
func (s *Store) commitFirst(group []*write) int {
	n, err := s.writer.transactAll(group)
	if err != nil && meaning(err) == store.ErrFull && s.writer.exec("PRAGMA wal_checkpoint(PASSIVE)") == nil {
		n, err = s.writer.transactAll(group)
	}
	if err != nil && n > 1 && meaning(err) == store.ErrFull {
		for i := range n {
			s.commitFirst(group[i : i+1])
		}
		return n
	}
	if err == nil {
		s.counts.commits.Add(1)
	}
	for _, w := range group[:n] {
		if w.err == nil { // otherwise it is what its function returned
			w.err = s.files.explain(err)
		}
		if w.err != nil {
			s.counts.failures.Add(1)
		} else {
			s.counts.writes.Add(1)
		}
		w.end(w.err)
	}
	return n
}

func (s *Store) prune(ctx context.Context, query string, now time.Time) (int, error) {
	gone := new(int64) // the caller may leave before it is known
	err := s.write(ctx, 1, func(t *tx) (err error) {
		*gone, err = t.run(query, nanos(now))
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(*gone), nil
}

// errAgain: a function has failed after it had written. Savepoints are used from then on, and not before.
var errAgain = errors.New("again, with savepoints")

func (s *session) transactAll(group []*write) (n int, err error) {
	if n, err = s.transact(group, false); err == errAgain {
		n, err = s.transact(group, true)
	}
	return n, err
}

// transact does the first writes of a group in one transaction and returns how many. An error is about all of them;
// an error of one write is in its err. errAgain means that savepoints are needed.
func (s *session) transact(group []*write, savepoints bool) (n int, err error) {
	whole := false
	defer func() {
		if err != nil || !whole {
			_ = s.exec("ROLLBACK") // SQLite may have done so already
		}
	}()
	if err := s.exec("BEGIN IMMEDIATE"); err != nil {
		return len(group), err
	}
	s.work = 0
	for _, w := range group {
		n++
		err = s.apply(w, savepoints)
		if err == errAgain && len(group) == 1 { // there are no others to save
			whole = true
			return n, s.exec("ROLLBACK")
		}
		if err != nil {
			return n, err
		}
		if s.work >= maxRows {
			break
		}
	}
	err = s.exec("COMMIT")
	whole = true
	return n, err
}

// apply runs the function of a write, all or nothing. Its error is in the write; the returned one is for all.
func (s *session) apply(w *write, savepoint bool) error {
	if savepoint {
		if err := s.exec("SAVEPOINT one"); err != nil {
			return err
		}
	}
	if w.tx == nil {
		w.tx = &s.own
	}
	w.err = w.run(s)
	switch {
	case w.tx.fatal != nil:
		return w.tx.fatal
	case w.err == nil || !w.tx.wrote:
	case !savepoint:
		return errAgain
	default:
		if err := s.exec("ROLLBACK TO one"); err != nil {
			return err
		}
	}
	if savepoint {
		return s.exec("RELEASE one")
	}
	return nil
}
