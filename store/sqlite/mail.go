package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"weir/store"
)

// Mail is the part of the store that keeps mail.
func (s *Store) Mail() store.Mail { return mail{s} }

type mail struct{ *Store }

// Update returns when f has been run for the last time, also when ctx ends: so f may use what belongs to the caller.
func (m mail) Update(ctx context.Context, f func(store.MailTx) error) error {
	w, err := m.enqueue(ctx, 1, func(t *tx) error { return f(t) })
	if err != nil {
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if w.state.CompareAndSwap(waiting, left) {
			return ctx.Err()
		}
		<-w.done
	}
	if w.err == nil {
		m.texts.committed(w.took, w.dropped)
	}
	return w.err
}

func (m mail) View(ctx context.Context, f func(store.MailTx) error) error {
	return m.view(ctx, func(s *session) error {
		t := &tx{session: s, files: &m.files, texts: &m.texts}
		defer func() { t.session = nil }()
		return f(t)
	})
}

// view gives f a connection, and a moment that stays the same while it looks around.
func (s *Store) view(ctx context.Context, f func(*session) error) (err error) {
	done, err := s.read()
	if err != nil {
		return err
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return err
	}
	var v *session
	select {
	case v = <-s.views:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.views <- v }()
	if v == nil {
		if v, err = newSession(forever, s.viewing); err != nil {
			return s.files.explain(err)
		}
	}
	if err := v.exec("BEGIN"); err != nil {
		return s.files.explain(err)
	}
	defer func() {
		if end := v.exec("ROLLBACK"); err == nil { // there is nothing to commit
			err = s.files.explain(end)
		}
	}()
	return f(v)
}

// query calls each with the rows of a view, for as long as the caller waits for them.
func (s *Store) query(ctx context.Context, each func(row) error, query string, args ...any) error {
	return s.view(ctx, func(v *session) error {
		return s.files.explain(v.query(func(r row) error { return cmp.Or(ctx.Err(), each(r)) }, query, args...))
	})
}

// one reads the row that a query finds; missing is the error where there is none.
func one[T any](t *tx, missing error, read func(row) (T, error), query string, args ...any) (v T, err error) {
	found := false
	if err = t.query(func(r row) (err error) {
		found = true
		v, err = read(r)
		return err
	}, query, args...); err == nil && !found {
		err = missing
	}
	return v, err
}

// list reads up to limit rows.
func list[T any](t *tx, limit int, read func(row) (T, error), query string, args ...any) (all []T, err error) {
	err = t.page(limit, func(r row) error {
		v, err := read(r)
		all = append(all, v)
		return err
	}, query, args...)
	return all, err
}

// put runs a statement that writes, unless there is a mistake in what is written.
func (t *tx) put(mistake error, query string, args ...any) error {
	err := t.writes(mistake)
	if err == nil {
		_, err = t.run(query, args...)
	}
	return err
}

// A tx is a transaction of mail. Its methods are in the files of what they are about.
type tx struct {
	session  *session // nil after the end
	files    *files
	texts    *texts
	writable bool
	wrote    bool
	fatal    error    // of SQLite, which may have ended the transaction
	spoilt   error    // of a call that has done half of what it should
	took     []string // files that a mail has now
	dropped  []string // files that no mail has any more
}

var _ store.MailTx = (*tx)(nil)

// errEnded is for those who keep a transaction.
var errEnded = fmt.Errorf("the transaction is over: %w", store.ErrInvalid)

// writes returns ErrInvalid where nothing may be written, and else the mistake in what is to be written.
func (t *tx) writes(mistake error) error {
	switch {
	case t.session == nil:
		return errEnded
	case !t.writable:
		return fmt.Errorf("a view is for looking: %w", store.ErrInvalid)
	}
	return mistake
}

func (t *tx) run(query string, args ...any) (int64, error) {
	t.wrote = true
	n, err := t.session.run(query, args...)
	return n, t.fails(err)
}

func (t *tx) query(each func(row) error, query string, args ...any) error {
	if t.session == nil {
		return errEnded
	}
	return t.fails(t.session.query(each, query, args...))
}

func (t *tx) page(limit int, each func(row) error, query string, args ...any) error {
	if err := store.CheckLimit(limit); err != nil || limit == 0 {
		return err
	}
	return t.query(each, query, append(args, int64(limit))...)
}

// fails notes an error of SQLite, and explains it.
func (t *tx) fails(err error) error {
	if err == nil || errors.Is(err, store.ErrCorrupt) {
		return err
	}
	if t.fatal == nil && endsTransaction(err) {
		t.fatal = err
	}
	return t.files.explain(err)
}

// spoil notes that a call has done half of what it should, so that the rest of the update is of no use.
func (t *tx) spoil(err error) error {
	if t.spoilt == nil {
		t.spoilt = err
	}
	return err
}

// corrupt says that somebody else wrote what is wrong with what was read.
func corrupt(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
}

// breaks is which constraint an error of SQLite is about, or 0.
func breaks(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_CONSTRAINT {
		return e.Code()
	}
	return 0
}

// when is how a time is stored that may be missing, in a column that may not.
func when(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return nanos(t)
}

func whenever(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return moment(n)
}
