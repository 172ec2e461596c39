package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/store"
)

// Bans is the part of the store that keeps the invalid list.
func (s *Store) Bans() store.Bans { return bans{s} }

type bans struct{ *Store }

const banColumns = `client, network, reason, by, operator, since, until`

func (b bans) List(ctx context.Context, now time.Time) (all []store.Ban, err error) {
	done, err := b.read()
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := b.reading.QueryContext(ctx, `SELECT `+banColumns+` FROM bans WHERE until IS NULL OR until > ?`,
		nanos(now))
	if err != nil {
		return nil, b.files.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		ban, err := scanBan(rows.Scan)
		if err != nil {
			return nil, b.files.explain(err)
		}
		all = append(all, ban)
	}
	if err := rows.Err(); err != nil {
		return nil, b.files.explain(err)
	}
	slices.SortFunc(all, func(a, b store.Ban) int { return a.Compare(b.BanKey) })
	return all, nil
}

func (b bans) Get(ctx context.Context, key store.BanKey, now time.Time) (store.Ban, error) {
	if err := key.Validate(); err != nil {
		return store.Ban{}, err
	}
	done, err := b.read()
	if err != nil {
		return store.Ban{}, err
	}
	defer done()
	row := b.reading.QueryRowContext(ctx,
		`SELECT `+banColumns+` FROM bans WHERE client = ? AND network = ? AND (until IS NULL OR until > ?)`,
		key.Client, network(key), nanos(now))
	ban, err := scanBan(row.Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return ban, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return ban, b.files.explain(err)
}

func (b bans) Put(ctx context.Context, all ...store.Ban) error {
	if err := store.CheckBatch(all); err != nil {
		return err
	}
	if len(all) == 0 {
		return b.alive()
	}
	all = slices.Clone(all) // the caller may leave before it is written
	return b.write(ctx, len(all), func(s *session) error {
		for i := range all {
			v := &all[i]
			if err := s.exec(`INSERT OR REPLACE INTO bans (`+banColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				v.Client, network(v.BanKey), v.Reason, v.By, v.Operator, optional(v.Since),
				optional(v.Until)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b bans) Remove(ctx context.Context, keys ...store.BanKey) error {
	if err := store.CheckBatch(keys); err != nil {
		return err
	}
	if len(keys) == 0 {
		return b.alive()
	}
	keys = slices.Clone(keys)
	return b.write(ctx, len(keys), func(s *session) error {
		for _, key := range keys {
			if err := s.exec(`DELETE FROM bans WHERE client = ? AND network = ?`, key.Client,
				network(key)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b bans) Prune(ctx context.Context, now time.Time) (int, error) {
	return b.prune(ctx, `DELETE FROM bans WHERE until <= ?`, now)
}

func network(key store.BanKey) string {
	if key.Client != "" {
		return ""
	}
	return key.Prefix.String()
}

// optional is how a time is stored that may be missing.
func optional(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return nanos(t)
}

func scanBan(scan func(...any) error) (b store.Ban, err error) {
	var prefix string
	var since, until sql.NullInt64
	if err := scan(&b.Client, &prefix, &b.Reason, &b.By, &b.Operator, &since, &until); err != nil {
		return b, err
	}
	if prefix != "" {
		if b.Prefix, err = netip.ParsePrefix(prefix); err != nil {
			return b, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
	}
	if since.Valid {
		b.Since = moment(since.Int64)
	}
	if until.Valid {
		b.Until = moment(until.Int64)
	}
	if err := b.Validate(); err != nil { // somebody else wrote it
		return b, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return b, nil
}
