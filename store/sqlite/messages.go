package sqlite

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	lib "modernc.org/sqlite/lib"

	"weir/store"
)

const messageColumns = `id, gate, user, sender, subject, source, received, size, flags, envelope, file`

const (
	flagUTF8 = 1 << iota
	flagEightBit
	flagOwn
	flagReturnFull
	flagReturnHeaders
)

func flagsOf(l *store.Message) (flags int64) {
	for _, f := range [...]struct {
		set  bool
		flag int64
	}{{l.UTF8, flagUTF8}, {l.EightBit, flagEightBit}, {l.Own, flagOwn}, {l.Return == "FULL", flagReturnFull},
		{l.Return == "HDRS", flagReturnHeaders}} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

func (t *tx) PutMessage(l store.Message, text store.Text, to []store.Addressee) error {
	if err := t.writes(checkMessage(&l, &text, to)); err != nil {
		return err
	}
	var file any
	var inline []byte
	if text.File == "" {
		inline = summed(text.Inline)
	} else {
		if err := t.texts.sealed(text.File); err != nil {
			return err
		}
		file = text.File
	}
	t.session.weigh(len(inline))
	if _, err := t.run(`INSERT INTO messages (`+messageColumns+`, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(l.ID), l.Gate, l.User, l.Sender, l.Subject, source(l.Source), nanos(l.Received), text.Size, flagsOf(&l),
		l.Envelope, file, inline); err != nil {
		switch breaks(err) {
		case 0:
			return err
		case lib.SQLITE_CONSTRAINT_UNIQUE:
			return fmt.Errorf("another mail has the text of %s: %w", l.ID, store.ErrInvalid)
		}
		return fmt.Errorf("the mail %s: %w", l.ID, store.ErrExists)
	}
	for i := range to {
		a := &to[i]
		if _, err := t.run(`INSERT INTO addressees (`+addresseeColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			int64(l.ID), int64(a.Number), a.Address, a.Notify, a.Original, int64(a.State), when(a.Due), when(a.Since),
			int64(a.Attempt), a.Owner, a.Status, a.Warned); err != nil {
			if breaks(err) != 0 {
				err = fmt.Errorf("addressee %d of %s is there twice: %w", a.Number, l.ID, store.ErrInvalid)
			}
			return t.spoil(err)
		}
	}
	if text.File != "" {
		t.took = append(t.took, text.File)
	}
	return nil
}

// checkMessage returns the first mistake. Addressees need not say which mail they belong to.
func checkMessage(l *store.Message, text *store.Text, to []store.Addressee) error {
	return cmp.Or(l.Validate(), text.Validate(), store.CheckAddressees(l.ID, to))
}

func (t *tx) Message(id store.MailID) (store.Message, error) {
	l, err := one(t, store.ErrNotFound, readMessage, `SELECT `+messageColumns+` FROM messages WHERE id = ?`, key(id))
	if err == store.ErrNotFound {
		err = noMail(id)
	}
	return l, err
}

func noMail(id store.MailID) error { return fmt.Errorf("the mail %s: %w", id, store.ErrNotFound) }

// key is how an id is stored. An id that no mail can have is stored as 0.
func key(id store.MailID) int64 {
	if !id.Valid() {
		return 0
	}
	return int64(id)
}

func readMessage(r row) (l store.Message, err error) {
	flags := r.int(8)
	l = store.Message{ID: store.MailID(r.int(0)), Gate: r.text(1), User: r.text(2), Sender: r.text(3),
		Subject: r.text(4), Received: moment(r.int(6)), Size: r.int(7), Envelope: r.text(9), Filed: r.text(10),
		UTF8: flags&flagUTF8 != 0, EightBit: flags&flagEightBit != 0, Own: flags&flagOwn != 0}
	switch {
	case flags&flagReturnFull != 0:
		l.Return = "FULL"
	case flags&flagReturnHeaders != 0:
		l.Return = "HDRS"
	}
	l.Source, err = r.addr(5)
	return l, corrupt(cmp.Or(err, l.Validate()))
}

// The queries for messages, by what is asked for. Their terms repeat those of the partial indexes.
const (
	anyMessages     = `SELECT ` + messageColumns + ` FROM messages WHERE id > ? ORDER BY id LIMIT ?`
	messagesOfUser  = `SELECT ` + messageColumns + ` FROM messages WHERE user = ? AND id > ? ORDER BY id LIMIT ?`
	messagesByState = `SELECT ` + messageColumns + ` FROM messages WHERE user = ? AND id > ? AND EXISTS (
		SELECT 1 FROM addressees WHERE mail = messages.id AND state = ?) ORDER BY id LIMIT ?`
	messagesActive = `SELECT ` + messageColumns + ` FROM messages WHERE id IN (
		SELECT mail FROM addressees INDEXED BY addressees_due WHERE state <= 2 AND state = ? AND mail > ?) ORDER BY id LIMIT ?`
	messagesWaiting = `SELECT ` + messageColumns + ` FROM messages WHERE id IN (
		SELECT DISTINCT mail FROM addressees INDEXED BY addressees_waiting WHERE state > 2 AND state = ? AND mail > ? ORDER BY mail LIMIT ?) ORDER BY id`
)

func (t *tx) Messages(q store.MessageQuery, limit int) (all []store.Queued, err error) {
	if q.After != 0 && !q.After.Valid() { // the last one comes before it
		return nil, store.CheckLimit(limit)
	}
	query, args := anyMessages, []any{int64(q.After)}
	switch {
	case q.State != 0 && !q.State.Valid():
		return nil, fmt.Errorf("messages in %s: %w", q.State, store.ErrInvalid)
	case q.User != "" && q.State != 0:
		query, args = messagesByState, []any{q.User, int64(q.After), int64(q.State)}
	case q.User != "":
		query, args = messagesOfUser, []any{q.User, int64(q.After)}
	case q.State == store.Ready || q.State == store.Sending:
		query, args = messagesActive, []any{int64(q.State), int64(q.After)}
	case q.State != 0:
		query, args = messagesWaiting, []any{int64(q.State), int64(q.After)}
	}
	if all, err = list(t, limit, func(r row) (store.Queued, error) {
		l, err := readMessage(r)
		return store.Queued{Message: l}, err
	}, query, args...); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].To, err = t.Addressees(all[i].ID); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t *tx) Count() (messages int, addressees map[store.State]int, err error) {
	addressees = map[store.State]int{}
	if err = t.query(func(r row) error { messages = int(r.int(0)); return nil },
		`SELECT count(*) FROM messages`); err != nil {
		return 0, nil, err
	}
	for _, query := range [...]string{
		`SELECT state, count(*) FROM addressees INDEXED BY addressees_due WHERE state <= 2 GROUP BY state`,
		`SELECT state, count(*) FROM addressees INDEXED BY addressees_waiting WHERE state > 2 GROUP BY state`,
	} {
		if err = t.query(func(r row) error { addressees[store.State(r.int(0))] = int(r.int(1)); return nil },
			query); err != nil {
			return 0, nil, err
		}
	}
	return messages, addressees, nil
}

const addresseeColumns = `mail, number, address, notify, original, state, due, since, attempt, owner, status, warned`

func (t *tx) Addressees(id store.MailID) ([]store.Addressee, error) {
	return rows(t, readAddressee, `SELECT `+addresseeColumns+` FROM addressees WHERE mail = ? ORDER BY number`, key(id))
}

func readAddressee(r row) (store.Addressee, error) {
	a := store.Addressee{Mail: store.MailID(r.int(0)), Number: int(r.int(1)), Address: r.text(2), Notify: r.text(3),
		Original: r.text(4), State: store.State(r.int(5)), Due: whenever(r.int(6)), Since: whenever(r.int(7)),
		Attempt: int(r.int(8)), Owner: r.text(9), Status: r.text(10), Warned: r.bool(11)}
	return a, corrupt(a.Validate())
}

func (t *tx) Ready(now time.Time, pooled bool, limit int) (all []store.Addressee, err error) {
	queries := []string{`SELECT ` + addresseeColumns +
		` FROM addressees WHERE state <= 2 AND due <= ? ORDER BY due, state, mail, number LIMIT ?`}
	if pooled {
		queries = append(queries, `SELECT `+addresseeColumns+
			` FROM addressees WHERE state = 5 AND due <= ? ORDER BY due, mail, number LIMIT ?`)
	}
	for _, query := range queries {
		more, err := list(t, limit, readAddressee, query, bound(now))
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if pooled {
		slices.SortStableFunc(all, func(a, b store.Addressee) int {
			return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.State, b.State), cmp.Compare(a.Mail, b.Mail),
				cmp.Compare(a.Number, b.Number))
		})
	}
	return all[:min(limit, len(all))], nil
}

func (t *tx) NextDue() (next time.Time, err error) {
	for _, query := range [...]string{`SELECT min(due) FROM memories WHERE due IS NOT NULL`,
		`SELECT min(due) FROM addressees WHERE state <= 2`} {
		if err := t.query(func(r row) error {
			if r[0] == nil {
				return nil
			}
			if due := moment(r.int(0)); next.IsZero() || due.Before(next) {
				next = due
			}
			return nil
		}, query); err != nil {
			return time.Time{}, err
		}
	}
	return next, nil
}

func (t *tx) PutAddressees(all ...store.Addressee) error {
	if err := t.writes(checkAll(all)); err != nil {
		return err
	}
	for i := range all {
		a := &all[i]
		n, err := t.run(`UPDATE addressees SET address = ?, notify = ?, original = ?, state = ?, due = ?, since = ?,
			attempt = ?, owner = ?, status = ?, warned = ? WHERE mail = ? AND number = ?`, a.Address, a.Notify,
			a.Original, int64(a.State), when(a.Due), when(a.Since), int64(a.Attempt), a.Owner,
			a.Status, a.Warned, int64(a.Mail), int64(a.Number))
		if err == nil && n == 0 {
			err = fmt.Errorf("addressee %d of %s: %w", a.Number, a.Mail, store.ErrNotFound)
		}
		if err != nil && i > 0 {
			return t.spoil(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkAll(all []store.Addressee) error {
	if len(all) > store.MaxBatch {
		return fmt.Errorf("%d addressees in one call, at most %d: %w", len(all), store.MaxBatch, store.ErrTooLarge)
	}
	for i := range all {
		if err := all[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) RemoveAddressees(id store.MailID, numbers ...int) error {
	var mistake error
	if len(numbers) > store.MaxAddressees {
		mistake = fmt.Errorf("%d addressees in one call, at most %d: %w", len(numbers), store.MaxAddressees,
			store.ErrTooLarge)
	}
	if err := t.writes(mistake); err != nil {
		return err
	}
	removed := int64(0)
	for _, number := range numbers {
		n, err := t.run(`DELETE FROM addressees WHERE mail = ? AND number = ?`, key(id), int64(number))
		if err != nil {
			return t.spoil(err)
		}
		removed += n
	}
	if removed == 0 {
		return nil
	}
	return t.removeDone(id)
}

// removeDone removes a mail that has reached everybody. For most, which have no file, one statement is enough.
func (t *tx) removeDone(id store.MailID) error {
	const done = ` AND NOT EXISTS (SELECT 1 FROM addressees WHERE mail = ?1)`
	n, err := t.run(`DELETE FROM messages WHERE id = ?1 AND file IS NULL`+done, key(id))
	if err != nil {
		return t.spoil(err)
	}
	if n > 0 {
		return nil
	}
	var file string
	if err := t.query(func(r row) error { file = r.text(0); return nil },
		`SELECT file FROM messages WHERE id = ?1 AND file IS NOT NULL`+done, key(id)); err != nil || file == "" {
		return err
	}
	if _, err := t.run(`DELETE FROM messages WHERE id = ?`, key(id)); err != nil {
		return t.spoil(err)
	}
	t.dropped = append(t.dropped, file)
	return nil
}
