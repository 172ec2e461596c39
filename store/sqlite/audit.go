package sqlite

import (
	"fmt"
	"math"
	"strings"
	"time"

	"weir/store"
)

func (t *tx) PutTicket(k store.Ticket) error {
	if err := t.writes(k.Validate()); err != nil {
		return err
	}
	ids := make([]string, len(k.Letters))
	for i, id := range k.Letters {
		ids[i] = id.String()
	}
	_,
		err := t.run(`INSERT OR REPLACE INTO tickets (nonce, user, throttle, gate, letters, until, used) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		k.Nonce, k.User, k.Throttle, k.Gate, strings.Join(ids, " "), nanos(k.Until), k.Used)
	return err
}

func (t *tx) Ticket(nonce string) (k store.Ticket, err error) {
	found := false
	err = t.query(func(r row) error {
		found = true
		k = store.Ticket{Nonce: nonce, User: r.text(0), Throttle: r.text(1), Gate: r.text(2), Until: moment(r.int(4)),
			Used: r.bool(5)}
		for text := range strings.FieldsSeq(r.text(3)) {
			id, err := store.ParseMailID(text)
			if err != nil {
				return corrupt(err)
			}
			k.Letters = append(k.Letters, id)
		}
		return corrupt(k.Validate())
	}, `SELECT user, throttle, gate, letters, until, used FROM tickets WHERE nonce = ?`, nonce)
	if err == nil && !found {
		err = fmt.Errorf("a ticket: %w", store.ErrNotFound)
	}
	return k, err
}

func (t *tx) RemoveTickets(user string) error {
	if err := t.writes(nil); err != nil {
		return err
	}
	_, err := t.run(`DELETE FROM tickets WHERE user = ?`, user)
	return err
}

func (t *tx) PruneTickets(now time.Time, limit int) error {
	return t.prune(`DELETE FROM tickets WHERE nonce IN (SELECT nonce FROM tickets WHERE until <= ? ORDER BY until LIMIT ?)`, now, limit)
}

func (t *tx) prune(query string, now time.Time, limit int) error {
	if err := t.writes(store.CheckLimit(limit)); err != nil || limit == 0 {
		return err
	}
	_, err := t.run(query, bound(now), int64(limit))
	return err
}

func (t *tx) Log(e store.Entry) error {
	if err := t.writes(e.Validate()); err != nil {
		return err
	}
	_, err := t.run(`INSERT INTO entries (at, by, what, user, mail, text) VALUES (?, ?, ?, ?, ?, ?)`, nanos(e.At), e.By,
		e.What, e.User, int64(e.Mail), e.Text)
	return err
}

func (t *tx) Entries(before int64, limit int) (all []store.Entry, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	err = t.page(limit, func(r row) error {
		e := store.Entry{ID: r.int(0), At: moment(r.int(1)), By: r.text(2), What: r.text(3), User: r.text(4),
			Mail: store.MailID(r.int(5)), Text: r.text(6)}
		all = append(all, e)
		return corrupt(e.Validate())
	}, `SELECT id, at, by, what, user, mail, text FROM entries WHERE id < ? ORDER BY id DESC LIMIT ?`, before)
	return all, err
}

func (t *tx) PruneEntries(before time.Time, limit int) error {
	return t.prune(`DELETE FROM entries WHERE id IN (SELECT id FROM entries WHERE at < ? ORDER BY at LIMIT ?)`, before,
		limit)
}
