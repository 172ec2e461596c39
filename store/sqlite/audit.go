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
	ids := make([]string, len(k.Letters))
	for i, id := range k.Letters {
		ids[i] = id.String()
	}
	return t.put(k.Validate(),
		`INSERT OR REPLACE INTO tickets (nonce, user, throttle, gate, letters, until, used) VALUES (?, ?, ?, ?, ?, ?, ?)`,
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
			k.Letters = append(k.Letters, id)
		}
		return k, corrupt(k.Validate())
	}, `SELECT user, throttle, gate, letters, until, used FROM tickets WHERE nonce = ?`, nonce)
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
	return t.put(e.Validate(), `INSERT INTO entries (at, by, what, user, mail, text) VALUES (?, ?, ?, ?, ?, ?)`,
		nanos(e.At), e.By, e.What, e.User, int64(e.Mail), e.Text)
}

func (t *tx) Entries(before int64, limit int) ([]store.Entry, error) {
	return list(t, limit, readEntry,
		`SELECT id, at, by, what, user, mail, text FROM entries WHERE id < ? ORDER BY id DESC LIMIT ?`,
		cmp.Or(before, math.MaxInt64))
}

func readEntry(r row) (store.Entry, error) {
	e := store.Entry{ID: r.int(0), At: moment(r.int(1)), By: r.text(2), What: r.text(3), User: r.text(4),
		Mail: store.MailID(r.int(5)), Text: r.text(6)}
	return e, corrupt(e.Validate())
}

func (t *tx) PruneEntries(before time.Time, limit int) error {
	_, err := t.prune(`DELETE FROM entries WHERE id IN (SELECT id FROM entries WHERE at < ? ORDER BY at LIMIT ?)`,
		before, limit)
	return err
}
