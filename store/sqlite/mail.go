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
	t := &tx{f: f, files: &m.files, texts: &m.texts, source: store.SourceOf(ctx)}
	w, err := m.enqueue(ctx, t, 1, (*tx).update)
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
		m.texts.committed(t.took, t.dropped)
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

// view gives f a connection in a transaction, so that all it reads is of one moment.
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

// one reads the only row that a query finds. missing is the error if there is none.
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

// rows reads all rows that a query finds.
func rows[T any](t *tx, read func(row) (T, error), query string, args ...any) (all []T, err error) {
	err = t.query(func(r row) error {
		v, err := read(r)
		all = append(all, v)
		return err
	}, query, args...)
	return all, err
}

// list reads up to limit rows. The query takes the limit as its last argument.
func list[T any](t *tx, limit int, read func(row) (T, error), query string, args ...any) ([]T, error) {
	if err := store.CheckLimit(limit); err != nil || limit == 0 {
		return nil, err
	}
	return rows(t, read, query, append(args, int64(limit))...)
}

// put runs a statement that writes. A mistake in what is to be written is returned instead.
func (t *tx) put(mistake error, query string, args ...any) error {
	err := t.writes(mistake)
	if err == nil {
		_, err = t.run(query, args...)
	}
	return err
}

// A tx is a transaction. The methods of store.MailTx are in the files of what they are about.
type tx struct {
	f        func(store.MailTx) error // of an update
	session  *session                 // nil after the end
	files    *files
	texts    *texts
	source   string // where it comes from, for the audit log
	writable bool
	wrote    bool
	fatal    error    // of SQLite, which may have ended the transaction
	spoilt   error    // of a call that has done only half of its work
	took     []string // files that belong to a mail now
	dropped  []string // files that belong to no mail any more
}

var _ store.MailTx = (*tx)(nil)

func (t *tx) update() error { return t.f(t) }

// errEnded is for callers who use a transaction after its end.
var errEnded = fmt.Errorf("the transaction is over: %w", store.ErrInvalid)

// writes returns ErrInvalid if nothing may be written, and otherwise the mistake in what is to be written.
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

// spoil notes that a call has done only half of its work, so that the whole update must fail.
func (t *tx) spoil(err error) error {
	if t.spoilt == nil {
		t.spoilt = err
	}
	return err
}

// corrupt turns a mistake in a row that was read into ErrCorrupt: weir itself writes none.
func corrupt(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
}

// breaks returns the code of the constraint that an error of SQLite is about, or 0.
func breaks(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_CONSTRAINT {
		return e.Code()
	}
	return 0
}

// when is how a time that may be missing is stored in a column that is not null.
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
