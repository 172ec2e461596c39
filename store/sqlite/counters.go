package sqlite

import (
	"cmp"
	"context"
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

// Ceilings is the part of the store that keeps what this node may have been granted by an engine.
func (s *Store) Ceilings() store.Ceilings { return ceilings{s} }

type ceilings struct{ *Store }

const ceilingColumns = `throttle, rule, account, source, run, state, slice, used, seq, accepted, until`

func (c ceilings) Save(ctx context.Context, all []store.Ceiling) error {
	return writeAll(ctx, c.Store, all, func(t *tx, v *store.Ceiling) error {
		return t.put(nil, `INSERT OR REPLACE INTO ceilings (`+ceilingColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			v.Throttle, v.Rule, v.Account, source(v.Source), v.Run, v.State, v.Slice, v.Used, v.Seq, v.Accepted,
			nanos(v.Until))
	})
}

func (c ceilings) Forget(ctx context.Context, all []store.Ceiling) error {
	return writeAll(ctx, c.Store, all, func(t *tx, v *store.Ceiling) error {
		return t.put(nil,
			`DELETE FROM ceilings WHERE throttle = ? AND rule = ? AND account = ? AND source = ? AND run = ?`,
			v.Throttle, v.Rule, v.Account, source(v.Source), v.Run)
	})
}

func (c ceilings) Load(ctx context.Context, throttle string, now time.Time, each func(store.Ceiling) error) error {
	var enough error // of the caller, which gets it back as it is
	err := c.query(ctx, func(r row) error {
		v, err := readCeiling(r)
		if err == nil {
			enough = each(v)
		}
		return cmp.Or(err, enough)
	}, `SELECT `+ceilingColumns+` FROM ceilings WHERE throttle = ? AND until > ? ORDER BY seq DESC`, throttle, nanos(now))
	return cmp.Or(enough, err)
}

func (c ceilings) Prune(ctx context.Context, now time.Time) (int, error) {
	return c.prune(ctx, `DELETE FROM ceilings WHERE until <= ?`, now)
}

func readCeiling(r row) (c store.Ceiling, err error) {
	c = store.Ceiling{Throttle: r.text(0), Rule: r.text(1), Account: r.text(2), Run: r.text(4), State: r.bytes(5),
		Slice: r.int(6), Used: r.int(7), Seq: r.int(8), Accepted: r.bool(9), Until: moment(r.int(10))}
	c.Source, err = r.addr(3)
	return c, corrupt(cmp.Or(err, c.Validate()))
}

// Settings is the part of the store that keeps what operators have set.
func (s *Store) Settings() store.Settings { return settings{s} }

type settings struct{ *Store }

const settingColumns = `kind, name, at, until, value, by`

func (s settings) List(ctx context.Context, now time.Time) (all []store.Setting, err error) {
	err = s.query(ctx, func(r row) error {
		v, err := readSetting(r)
		all = append(all, v)
		return err
	}, `SELECT `+settingColumns+` FROM settings WHERE until IS NULL OR until > ?`, nanos(now))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b store.Setting) int { return a.Compare(b.SettingKey) })
	return all, nil
}

func (s settings) Put(ctx context.Context, all ...store.Setting) error {
	return writeAll(ctx, s.Store, all, func(t *tx, v *store.Setting) error {
		return t.put(nil, `INSERT OR REPLACE INTO settings (`+settingColumns+`) VALUES (?, ?, ?, ?, ?, ?)`, v.Kind,
			v.Name, nanos(v.At), optional(v.Until), v.Value, v.By)
	})
}

func (s settings) Forget(ctx context.Context, keys ...store.SettingKey) error {
	return writeAll(ctx, s.Store, keys, func(t *tx, key *store.SettingKey) error {
		return t.put(nil, `DELETE FROM settings WHERE kind = ? AND name = ?`, key.Kind, key.Name)
	})
}

func (s settings) Prune(ctx context.Context, now time.Time) (int, error) {
	return s.prune(ctx, `DELETE FROM settings WHERE until <= ?`, now)
}

func readSetting(r row) (store.Setting, error) {
	v := store.Setting{SettingKey: store.SettingKey{Kind: r.text(0), Name: r.text(1)}, At: moment(r.int(2)),
		Until: r.time(3), Value: r.text(4), By: r.text(5)}
	return v, corrupt(v.Validate())
}
