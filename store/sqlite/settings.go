package sqlite

import (
	"context"
	"slices"
	"time"

	"weir/store"
)

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
