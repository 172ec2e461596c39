package sqlite

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"weir/store"
)

var errNoLogIn = fmt.Errorf("a network of logins: %w", store.ErrNotFound)

const logInColumns = `console, name, network, since, at`

func (t *tx) LogIn(console bool, name string, network netip.Prefix) (store.LogIn, error) {
	return one(t, errNoLogIn, readLogIn, `SELECT `+logInColumns+
		` FROM logins WHERE console = ? AND name = ? AND network = ?`, console, name, network.String())
}

func readLogIn(r row) (store.LogIn, error) {
	network, err := netip.ParsePrefix(r.text(2))
	l := store.LogIn{Console: r.bool(0), Name: r.text(1), Network: network, Since: moment(r.int(3)),
		At: moment(r.int(4))}
	return l, corrupt(errors.Join(err, l.Validate()))
}

func (t *tx) PutLogIn(l store.LogIn, each, most int) error {
	if err := t.writes(l.Validate()); err != nil {
		return err
	}
	network := l.Network.String()
	kept, err := t.session.first(`SELECT n FROM logins_kept WHERE NOT EXISTS
		(SELECT 1 FROM logins WHERE console = ? AND name = ? AND network = ?)`, l.Console, l.Name, network)
	if err != nil {
		return err
	}
	if n, fresh := kept.(int64); fresh && n >= int64(most) {
		return fmt.Errorf("a network of logins beside %d others: %w", n, store.ErrCrowded)
	}
	if _, err := t.run(`INSERT INTO logins (`+logInColumns+`) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET since = excluded.since, at = excluded.at`,
		l.Console, l.Name, network, nanos(l.Since), nanos(l.At)); err != nil {
		return err
	}
	if _, err := t.run(`DELETE FROM logins WHERE console = ?1 AND name = ?2 AND network IN
		(SELECT network FROM logins WHERE console = ?1 AND name = ?2 AND network <> ?3
		ORDER BY at > since DESC, at DESC, network LIMIT -1 OFFSET ?4)`,
		l.Console, l.Name, network, int64(each-1)); err != nil {
		return t.spoil(err)
	}
	return nil
}

func (t *tx) PruneLogIns(before time.Time, limit int) error {
	_, err := t.prune(`DELETE FROM logins WHERE (console, name, network) IN
		(SELECT console, name, network FROM logins WHERE at < ? ORDER BY at LIMIT ?)`, before, limit)
	return err
}

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
