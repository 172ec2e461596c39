package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weir/store"
)

// Bounds of one commit, so that the first in it does not wait for long.
const (
	maxGroup = 1024
	maxRows  = 20_000
)

// A write is what one caller wants to have written.
type write struct {
	ctx  context.Context
	rows int // how many statements it is
	do   func(*session) error
	err  error
	done chan struct{} // closed when err is final
}

func (w *write) end(err error) {
	w.err = err
	close(w.done)
}

// counts is what has been written since the store was opened.
type counts struct{ writes, commits, failures, refused atomic.Uint64 }

// Stats is the state of the writer.
type Stats struct {
	Waiting  int    `json:"waiting"`  // writes that wait for a commit
	Writes   uint64 `json:"writes"`   // calls that were committed
	Commits  uint64 `json:"commits"`  // transactions that took
	Failures uint64 `json:"failures"` // calls that failed
	Refused  uint64 `json:"refused"`  // calls for which there was no place to wait
}

// Stats returns the state of the writer.
func (s *Store) Stats() Stats {
	return Stats{Waiting: len(s.queue), Writes: s.counts.writes.Load(), Commits: s.counts.commits.Load(),
		Failures: s.counts.failures.Load(), Refused: s.counts.refused.Load()}
}

// write hands a write to the writer and waits until it is committed. When ctx ends first, it is not written if it was still waiting;
// if it was already under way, nobody can tell.
func (s *Store) write(ctx context.Context, rows int, do func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &write{ctx: ctx, rows: rows, do: do, done: make(chan struct{})}
	if err := s.enqueue(w); err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) enqueue(w *write) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	select {
	case s.queue <- w:
		return nil
	default:
		s.counts.refused.Add(1)
		return fmt.Errorf("%s: %w (%d)", s.files.db, store.ErrTooMany, cap(s.queue))
	}
}

// run is the writer. It ends when the queue is closed and empty.
func (s *Store) run() {
	defer close(s.idle)
	for w := range s.queue {
		s.commit(s.gather(w))
	}
}

// gather takes what waits behind a write, without waiting itself. Those whose callers have left are not written.
func (s *Store) gather(w *write) (group []*write) {
	rows := 0
	for more := true; more; {
		if err := w.ctx.Err(); err != nil {
			w.end(err)
		} else {
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

// commit writes a group in one transaction and answers everybody in it. Where the disk has no room for all, each is tried alone:
// there may be room for the small ones, and a removal makes some.
func (s *Store) commit(group []*write) {
	if len(group) == 0 {
		return
	}
	err := s.writer.transact(group)
	if err != nil && len(group) > 1 && meaning(err) == store.ErrFull {
		for i := range group {
			s.commit(group[i : i+1])
		}
		return
	}
	if err == nil {
		s.counts.commits.Add(1)
	}
	for _, w := range group {
		if err != nil {
			w.err = err
		}
		if w.err != nil {
			s.counts.failures.Add(1)
		} else {
			s.counts.writes.Add(1)
		}
		w.end(s.files.explain(w.err))
	}
}

// prune deletes what is over, and returns how much that was.
func (s *Store) prune(ctx context.Context, query string, now time.Time) (int, error) {
	gone := new(int64) // the caller may leave before it is known
	err := s.write(ctx, 1, func(w *session) error {
		result, err := w.run(query, nanos(now))
		if err != nil {
			return err
		}
		*gone, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(*gone), nil
}

// A session is the writer's connection.
type session struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

// forever is the context of what is written: it is for several callers, none of whom may break it off for the others.
var forever = context.Background()

// run executes a statement, which is prepared once.
func (s *session) run(query string, args ...any) (sql.Result, error) {
	stmt := s.statements[query]
	if stmt == nil {
		var err error
		if stmt, err = s.conn.PrepareContext(forever, query); err != nil {
			return nil, err
		}
		s.statements[query] = stmt
	}
	return stmt.ExecContext(forever, args...)
}

// exec is run for those who do not want to know how many rows it was.
func (s *session) exec(query string, args ...any) error {
	_, err := s.run(query, args...)
	return err
}

// transact does all writes in one transaction. An error is about all of them; what concerns one alone is in its err.
func (s *session) transact(group []*write) (err error) {
	defer func() {
		if err != nil {
			_ = s.exec("ROLLBACK") // SQLite may have done so already
		}
	}()
	if err := s.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, w := range group {
		if w.err = s.apply(w); w.err != nil && endsTransaction(w.err) {
			return w.err
		}
	}
	return s.exec("COMMIT")
}

// apply does one write, all or nothing. A single statement is that by itself.
func (s *session) apply(w *write) error {
	if w.rows <= 1 {
		return w.do(s)
	}
	if err := s.exec("SAVEPOINT one"); err != nil {
		return err
	}
	err := w.do(s)
	if err != nil {
		if endsTransaction(err) {
			return err
		}
		if undo := s.exec("ROLLBACK TO one"); undo != nil {
			return undo
		}
	}
	return errors.Join(err, s.exec("RELEASE one"))
}

func (s *session) close() error {
	var errs []error
	for _, stmt := range s.statements {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}
