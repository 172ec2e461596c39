package sqlite

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/store"
)

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
