package sqlite

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"weir/store"
)

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
