package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"weir/store"
)

// Access is the part of the store that keeps who may use the console.
func (s *Store) Access() store.Access { return access{s} }

type access struct{ *Store }

var _ store.AccessTx = (*tx)(nil)

func (a access) Update(ctx context.Context, f func(store.AccessTx) error) error {
	return mail(a).Update(ctx, func(t store.MailTx) error { return f(t.(*tx)) })
}

func (a access) View(ctx context.Context, f func(store.AccessTx) error) error {
	return mail(a).View(ctx, func(t store.MailTx) error { return f(t.(*tx)) })
}

const (
	operatorColumns = `name, role, password, made, changed`
	sessionColumns  = `sum, operator, source, made, seen, until`
	tokenColumns    = `sum, name, role, operator, by, made, until, used`
)

var (
	errNoOperator = fmt.Errorf("an operator: %w", store.ErrNotFound)
	errNoSession  = fmt.Errorf("a session: %w", store.ErrNotFound)
	errNoToken    = fmt.Errorf("a token: %w", store.ErrNotFound)
	errSum        = fmt.Errorf("%w: a sum of another length", store.ErrCorrupt)
)

func (t *tx) Operator(name string) (store.Operator, error) {
	return one(t, errNoOperator, readOperator, `SELECT `+operatorColumns+` FROM operators WHERE name = ?`, name)
}

func (t *tx) Operators(after string, limit int) ([]store.Operator, error) {
	return list(t, limit, readOperator, `SELECT `+operatorColumns+
		` FROM operators WHERE name > ? ORDER BY name LIMIT ?`, after)
}

func readOperator(r row) (store.Operator, error) {
	o := store.Operator{Name: r.text(0), Role: r.text(1), Password: r.text(2), Made: moment(r.int(3)),
		Changed: moment(r.int(4))}
	return o, corrupt(o.Validate())
}

func (t *tx) PutOperator(o store.Operator) error {
	return t.put(o.Validate(), `INSERT OR REPLACE INTO operators (`+operatorColumns+`) VALUES (?, ?, ?, ?, ?)`,
		o.Name, o.Role, o.Password, nanos(o.Made), nanos(o.Changed))
}

func (t *tx) RemoveOperator(name string) error {
	if err := t.writes(nil); err != nil || name == "" { // tokens of no operator have the empty name
		return err
	}
	for _, query := range [...]string{`DELETE FROM sessions WHERE operator = ?`, `DELETE FROM tokens WHERE operator = ?`,
		`DELETE FROM logins WHERE console = 1 AND name = ?`, `DELETE FROM operators WHERE name = ?`} {
		if _, err := t.run(query, name); err != nil {
			return t.spoil(err)
		}
	}
	return nil
}

func (t *tx) Session(sum store.Sum) (store.Session, error) {
	return one(t, errNoSession, readSession, `SELECT `+sessionColumns+` FROM sessions WHERE sum = ?`, sum[:])
}

func (t *tx) Sessions(operator string, limit int) ([]store.Session, error) {
	return list(t, limit, readSession, `SELECT `+sessionColumns+
		` FROM sessions WHERE operator = ? ORDER BY seen, sum LIMIT ?`, operator)
}

func readSession(r row) (store.Session, error) {
	s := store.Session{Operator: r.text(1), Source: r.text(2), Made: moment(r.int(3)), Seen: moment(r.int(4)),
		Until: moment(r.int(5))}
	if copy(s.Sum[:], r.bytes(0)) != len(s.Sum) {
		return s, errSum
	}
	return s, corrupt(s.Validate())
}

func (t *tx) PutSession(s store.Session) error {
	return t.put(s.Validate(), `INSERT OR REPLACE INTO sessions (`+sessionColumns+`) VALUES (?, ?, ?, ?, ?, ?)`,
		s.Sum[:], s.Operator, s.Source, nanos(s.Made), nanos(s.Seen), nanos(s.Until))
}

func (t *tx) RemoveSession(sum store.Sum) error {
	return t.put(nil, `DELETE FROM sessions WHERE sum = ?`, sum[:])
}

func (t *tx) RemoveSessions(operator string) error {
	return t.put(nil, `DELETE FROM sessions WHERE operator = ?`, operator)
}

func (t *tx) PruneSessions(now, idle time.Time, limit int) error {
	if _, err := t.prune(`DELETE FROM sessions WHERE sum IN
		(SELECT sum FROM sessions WHERE until <= ? ORDER BY until LIMIT ?)`, now, limit); err != nil {
		return err
	}
	_, err := t.prune(`DELETE FROM sessions WHERE sum IN
		(SELECT sum FROM sessions WHERE seen < ? ORDER BY seen LIMIT ?)`, idle, limit)
	return err
}

func (t *tx) Token(sum store.Sum) (store.Token, error) {
	return one(t, errNoToken, readToken, `SELECT `+tokenColumns+` FROM tokens WHERE sum = ?`, sum[:])
}

func (t *tx) Tokens(after string, limit int) ([]store.Token, error) {
	return list(t, limit, readToken, `SELECT `+tokenColumns+` FROM tokens WHERE name > ? ORDER BY name LIMIT ?`, after)
}

func readToken(r row) (store.Token, error) {
	k := store.Token{Name: r.text(1), Role: r.text(2), Operator: r.text(3), By: r.text(4), Made: moment(r.int(5)),
		Until: whenever(r.int(6)), Used: whenever(r.int(7))}
	if copy(k.Sum[:], r.bytes(0)) != len(k.Sum) {
		return k, errSum
	}
	return k, corrupt(k.Validate())
}

func (t *tx) PutToken(k store.Token) error {
	if err := t.writes(k.Validate()); err != nil {
		return err
	}
	_, err := t.run(`INSERT INTO tokens (`+tokenColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (sum) DO UPDATE SET name = excluded.name, role = excluded.role, operator = excluded.operator,
		by = excluded.by, made = excluded.made, until = excluded.until, used = excluded.used`,
		k.Sum[:], k.Name, k.Role, k.Operator, k.By, nanos(k.Made), when(k.Until), when(k.Used))
	if breaks(err) == lib.SQLITE_CONSTRAINT_UNIQUE {
		return fmt.Errorf("a token of this name: %w", store.ErrExists)
	}
	return err
}

func (t *tx) RemoveToken(name string) (bool, error) {
	if err := t.writes(nil); err != nil {
		return false, err
	}
	n, err := t.run(`DELETE FROM tokens WHERE name = ?`, name)
	return n > 0, err
}

func (t *tx) PutTicket(k store.Ticket) error {
	ids := make([]string, len(k.Messages))
	for i, id := range k.Messages {
		ids[i] = id.String()
	}
	return t.put(k.Validate(),
		`INSERT OR REPLACE INTO tickets (nonce, user, throttle, gate, messages, until, used) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		k.Nonce, k.User, k.Throttle, k.Gate, strings.Join(ids, " "), nanos(k.Until), k.Used)
}

func (t *tx) Ticket(nonce string) (store.Ticket, error) {
	return one(t, errNoTicket, func(r row) (store.Ticket, error) {
		k := store.Ticket{Nonce: nonce, User: r.text(0), Throttle: r.text(1), Gate: r.text(2), Until: moment(r.int(4)),
			Used: r.bool(5)}
		for text := range strings.FieldsSeq(r.text(3)) {
			id, err := store.ParseMailID(text)
			if err != nil {
				return k, corrupt(err)
			}
			k.Messages = append(k.Messages, id)
		}
		return k, corrupt(k.Validate())
	}, `SELECT user, throttle, gate, messages, until, used FROM tickets WHERE nonce = ?`, nonce)
}

var errNoTicket = fmt.Errorf("a ticket: %w", store.ErrNotFound)

func (t *tx) RemoveTickets(user string) error {
	return t.put(nil, `DELETE FROM tickets WHERE user = ?`, user)
}

func (t *tx) PruneTickets(now time.Time, limit int) error {
	_, err := t.prune(`DELETE FROM tickets WHERE nonce IN
		(SELECT nonce FROM tickets WHERE until <= ? ORDER BY until LIMIT ?)`, now, limit)
	return err
}

// prune removes up to limit rows of before a time, and returns how many.
func (t *tx) prune(query string, before time.Time, limit int) (int64, error) {
	if err := t.writes(store.CheckLimit(limit)); err != nil || limit == 0 {
		return 0, err
	}
	return t.run(query, bound(before), int64(limit))
}

func (t *tx) Log(e store.Entry) error {
	if e.From == "" {
		e.From = t.source
	}
	if err := t.put(e.Validate(), `INSERT INTO entries (at, by, what, user, mail, text) VALUES (?, ?, ?, ?, ?, ?)`,
		nanos(e.At), e.By, e.What, e.User, int64(e.Mail), e.Text); err != nil || e.From+string(e.Before+e.After) == "" {
		return err
	}
	if _, err := t.run(`INSERT OR REPLACE INTO acts (entry, source, before, after)
		VALUES (last_insert_rowid(), ?, ?, ?)`, e.From, string(e.Before), string(e.After)); err != nil {
		return t.spoil(err)
	}
	return nil
}

func (t *tx) Entries(q store.EntryQuery, limit int) ([]store.Entry, error) {
	query := `SELECT id, at, by, what, user, mail, text, coalesce(source, ''), coalesce(before, ''), coalesce(after, '')
		FROM entries LEFT JOIN acts ON entry = id WHERE id < ?`
	args := []any{cmp.Or(q.Before, math.MaxInt64)}
	for _, c := range []struct {
		asked bool
		sql   string
		arg   any
	}{
		{q.By != "", "by = ?", q.By}, {q.What != "", "what = ?", q.What}, {q.User != "", "user = ?", q.User},
		{q.Mail != 0, "mail = ?", key(q.Mail)},
		{!q.Since.IsZero(), "at >= ?", bound(q.Since)}, {!q.Until.IsZero(), "at < ?", bound(q.Until)},
		{q.Text != "", "instr(by || char(10) || what || char(10) || user || char(10) || text || char(10) || " +
			"coalesce(source, ''), ?) > 0", q.Text},
	} {
		if c.asked {
			query += " AND " + c.sql
			args = append(args, c.arg)
		}
	}
	return list(t, limit, readEntryAndAct, query+` ORDER BY id DESC LIMIT ?`, args...)
}

func readEntry(r row) (store.Entry, error) {
	e := entryOf(r)
	return e, corrupt(e.Validate())
}

func readEntryAndAct(r row) (store.Entry, error) {
	e := entryOf(r)
	e.From, e.Before, e.After = r.text(7), store.Detail(r.text(8)), store.Detail(r.text(9))
	return e, corrupt(e.Validate())
}

func entryOf(r row) store.Entry {
	return store.Entry{ID: r.int(0), At: moment(r.int(1)), By: r.text(2), What: r.text(3), User: r.text(4),
		Mail: store.MailID(r.int(5)), Text: r.text(6)}
}

// readAct checks the row of an entry's source and details by itself.
func readAct(r row) (store.Entry, error) {
	e := store.Entry{At: moment(0), By: "?", What: "?", From: r.text(1), Before: store.Detail(r.text(2)),
		After: store.Detail(r.text(3))}
	return e, corrupt(e.Validate())
}

func (t *tx) PruneEntries(before time.Time, limit int) error {
	const oldest = `(SELECT id FROM entries WHERE at < ? ORDER BY at, id LIMIT ?)`
	if _, err := t.prune(`DELETE FROM acts WHERE entry IN `+oldest, before, limit); err != nil {
		return err
	}
	if _, err := t.prune(`DELETE FROM entries WHERE id IN `+oldest, before, limit); err != nil {
		return t.spoil(err)
	}
	return nil
}
