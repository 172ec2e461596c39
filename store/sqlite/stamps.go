package sqlite

import (
	"fmt"
	"time"

	"weir/store"
)

func (t *tx) Spend(s store.Stamp, most int) (bool, error) {
	if err := t.writes(s.Validate()); err != nil {
		return false, err
	}
	var spent, kept int64
	if err := t.query(func(r row) error { spent, kept = r.int(0), r.int(1); return nil },
		`SELECT (SELECT count(*) FROM stamps WHERE nonce = ?), n FROM stamps_kept`, s.Nonce[:]); err != nil ||
		spent > 0 {
		return false, err
	}
	if kept >= int64(most) {
		return false, fmt.Errorf("a stamp beside %d others: %w", kept, store.ErrCrowded)
	}
	if _, err := t.run(`INSERT INTO stamps (nonce, until) VALUES (?, ?)`, s.Nonce[:], nanos(s.Until)); err != nil {
		return false, err
	}
	if _, err := t.run(`UPDATE stamps_kept SET n = n + 1`); err != nil {
		return false, t.spoil(err)
	}
	return true, nil
}

func (t *tx) Spent(nonce store.StampNonce) (spent bool, err error) {
	err = t.query(func(row) error { spent = true; return nil }, `SELECT 1 FROM stamps WHERE nonce = ?`, nonce[:])
	return spent, err
}

func (t *tx) PruneStamps(now time.Time, limit int) (int, error) {
	n, err := t.prune(`DELETE FROM stamps WHERE nonce IN
		(SELECT nonce FROM stamps WHERE until <= ? ORDER BY until LIMIT ?)`, now, limit)
	if err != nil || n == 0 {
		return 0, err
	}
	if _, err := t.run(`UPDATE stamps_kept SET n = n - ?`, n); err != nil {
		return 0, t.spoil(err)
	}
	return int(n), nil
}
