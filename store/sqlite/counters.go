package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/store"
)

// Counters is the part of the store that keeps what accounts have used.
func (s *Store) Counters() store.Counters { return counters{s} }

type counters struct{ *Store }

const counterColumns = `throttle, rule, account, source, period, used, at, until`

func (c counters) Save(ctx context.Context, all []store.Counter) error {
	if err := store.CheckBatch(all); err != nil {
		return err
	}
	if len(all) == 0 {
		return c.alive()
	}
	all = slices.Clone(all)
	return c.write(ctx, len(all), func(s *session) error {
		for i := range all {
			if err := s.save(&all[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *session) save(v *store.Counter) error {
	if v.Used == 0 {
		return s.exec(`DELETE FROM counters WHERE throttle = ? AND rule = ? AND account = ? AND source = ? AND period = ?`,
			v.Throttle, v.Rule, v.Account, source(v.Source), nanos(v.Period))
	}
	return s.exec(`INSERT OR REPLACE INTO counters (`+counterColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		v.Throttle, v.Rule, v.Account, source(v.Source), nanos(v.Period), v.Used, optional(v.At), nanos(v.Until))
}

func (c counters) Load(ctx context.Context, now time.Time, each func(store.Counter) error) error {
	done, err := c.read()
	if err != nil {
		return err
	}
	defer done()
	rows, err := c.reading.QueryContext(ctx, `SELECT `+counterColumns+` FROM counters WHERE until > ?`, nanos(now))
	if err != nil {
		return c.files.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scanCounter(rows.Scan)
		if err != nil {
			return c.files.explain(err)
		}
		if err := each(v); err != nil {
			return err
		}
	}
	return c.files.explain(rows.Err())
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

func scanCounter(scan func(...any) error) (c store.Counter, err error) {
	var addr string
	var period, until int64
	var at sql.NullInt64
	if err := scan(&c.Throttle, &c.Rule, &c.Account, &addr, &period, &c.Used, &at, &until); err != nil {
		return c, err
	}
	if addr != "" {
		if c.Source, err = netip.ParseAddr(addr); err != nil {
			return c, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
	}
	c.Period, c.Until = moment(period), moment(until)
	if at.Valid {
		c.At = moment(at.Int64)
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return c, nil
}
