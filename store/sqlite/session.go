package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// A session is a connection that one goroutine uses at a time: the writer's, or that of a view. It calls the driver
// directly, since database/sql takes as long as the statements of a mail themselves.
type session struct {
	ctx        context.Context // of its statements
	conn       driver.Conn
	statements map[string]statement
	args       []driver.NamedValue // reused
	values     []driver.Value      // reused
	work       int                 // done so far: statements, and the pages that they take
	own        tx                  // of the writer, for writes that are not of mail; reused
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// forever is the context of the writer and of views. They serve several callers, and none may end it for the others.
var forever = context.Background()

func newSession(ctx context.Context, to driver.Connector) (*session, error) {
	conn, err := to.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &session{ctx: ctx, conn: conn, statements: map[string]statement{}}, nil
}

// prepare returns a statement, and its arguments as the driver wants them.
func (s *session) prepare(query string, args []any) (statement, []driver.NamedValue, error) {
	stmt := s.statements[query]
	if stmt == nil {
		made, err := s.conn.Prepare(query)
		if err != nil {
			return nil, nil, err
		}
		var can bool
		if stmt, can = made.(statement); !can {
			return nil, nil, errors.Join(fmt.Errorf("a statement is a %T", made), made.Close())
		}
		s.statements[query] = stmt
	}
	s.args = s.args[:0]
	for i, arg := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	s.work++
	return stmt, s.args, nil
}

// run executes a statement and returns how many rows it has changed. Arguments are int64, string, []byte, bool or nil.
func (s *session) run(query string, args ...any) (int64, error) {
	stmt, named, err := s.prepare(query, args)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(s.ctx, named)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s *session) exec(query string, args ...any) error {
	_, err := s.run(query, args...)
	return err
}

// first returns the first value of the only row that a query finds, or nil.
func (s *session) first(query string, args ...any) (v driver.Value, err error) {
	err = s.query(func(r row) error { v = r[0]; return nil }, query, args...)
	return v, err
}

// has reports whether a query finds something.
func (s *session) has(query string, args ...any) (bool, error) {
	v, err := s.first(query, args...)
	return v != nil, err
}

// query calls each with every row of the result. The row is valid until each returns, and each runs no query itself.
func (s *session) query(each func(row) error, query string, args ...any) error {
	stmt, named, err := s.prepare(query, args)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(s.ctx, named)
	if err != nil {
		return err
	}
	n := len(rows.Columns())
	if n > len(s.values) {
		s.values = make([]driver.Value, n)
	}
	for values := s.values[:n]; err == nil; {
		if err = rows.Next(values); err == nil {
			err = each(values)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return cmp.Or(err, rows.Close())
}

func (s *session) weigh(bytes int) { s.work += bytes / pageSize }

// A row is a row of a result. STRICT tables make sure that columns have their type.
type row []driver.Value

func (r row) text(i int) string {
	v, _ := r[i].(string)
	return v
}

func (r row) int(i int) int64 {
	v, _ := r[i].(int64)
	return v
}

func (r row) bool(i int) bool { return r.int(i) != 0 }

// time is a time that may be missing.
func (r row) time(i int) time.Time {
	if r[i] == nil {
		return time.Time{}
	}
	return moment(r.int(i))
}

// addr is an address that may be missing.
func (r row) addr(i int) (addr netip.Addr, err error) {
	if text := r.text(i); text != "" {
		addr, err = netip.ParseAddr(text)
	}
	return addr, err
}

func (r row) bytes(i int) []byte {
	v, _ := r[i].([]byte)
	return v
}

func (s *session) close() error {
	var errs []error
	for _, stmt := range s.statements {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}
