package sqlite

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"weir/store"
)

// Counters is the part of the store that keeps what accounts have used.
func (s *Store) Counters() store.Counters { return counters{s} }

type counters struct{ *Store }

const counterColumns = `throttle, rule, account, source, period, used, at, until`

func (c counters) Save(ctx context.Context, all []store.Counter) error {
	return writeAll(ctx, c.Store, all, (*tx).save)
}

func (t *tx) save(v *store.Counter) error {
	if v.Used == 0 {
		return t.put(nil,
			`DELETE FROM counters WHERE throttle = ? AND rule = ? AND account = ? AND source = ? AND period = ?`,
			v.Throttle, v.Rule, v.Account, source(v.Source), nanos(v.Period))
	}
	return t.put(nil, `INSERT OR REPLACE INTO counters (`+counterColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		v.Throttle, v.Rule, v.Account, source(v.Source), nanos(v.Period), v.Used, optional(v.At), nanos(v.Until))
}

func (c counters) Load(ctx context.Context, now time.Time, each func(store.Counter) error) error {
	var enough error // of the caller, which gets it back as it is
	err := c.query(ctx, func(r row) error {
		v, err := readCounter(r)
		if err == nil {
			enough = each(v)
		}
		return cmp.Or(err, enough)
	}, `SELECT `+counterColumns+` FROM counters WHERE until > ?`, nanos(now))
	return cmp.Or(enough, err)
}

func (c counters) Prune(ctx context.Context, now time.Time) (int, error) {
	return c.prune(ctx, `DELETE FROM counters WHERE until <= ?`, now)
}

func source(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}

func readCounter(r row) (c store.Counter, err error) {
	c = store.Counter{Throttle: r.text(0), Rule: r.text(1), Account: r.text(2), Period: moment(r.int(4)),
		Used: r.int(5), At: r.time(6), Until: moment(r.int(7))}
	c.Source, err = r.addr(3)
	return c, corrupt(cmp.Or(err, c.Validate()))
}
