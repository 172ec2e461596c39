package sqlite

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"weir/store"
)

// Bans is the part of the store that keeps the block list.
func (s *Store) Bans() store.Bans { return bans{s} }

type bans struct{ *Store }

const banColumns = `client, network, lifted, reason, by, operator, since, until`

func (b bans) List(ctx context.Context, now time.Time) (all []store.Ban, err error) {
	if err := b.query(ctx, reading(&all),
		`SELECT `+banColumns+` FROM bans WHERE until IS NULL OR until > ?`, nanos(now)); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b store.Ban) int { return a.Compare(b.BanKey) })
	return all, nil
}

func (b bans) Put(ctx context.Context, all ...store.Ban) error {
	return writeAll(ctx, b.Store, all, func(t *tx, v *store.Ban) error {
		return t.put(nil, `INSERT OR REPLACE INTO bans (`+banColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, v.Client,
			network(v.BanKey), v.Lifted, v.Reason, v.By, v.Operator, optional(v.Since), optional(v.Until))
	})
}

func (b bans) Remove(ctx context.Context, keys ...store.BanKey) error {
	return writeAll(ctx, b.Store, keys, func(t *tx, key *store.BanKey) error {
		return t.put(nil, `DELETE FROM bans WHERE client = ? AND network = ? AND lifted = ?`, key.Client, network(*key),
			key.Lifted)
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

// optional is how a time that may be missing is stored: as null.
func optional(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return nanos(t)
}

// reading appends what a row says.
func reading(all *[]store.Ban) func(row) error {
	return func(r row) error {
		b, err := readBan(r)
		*all = append(*all, b)
		return err
	}
}

func readBan(r row) (b store.Ban, err error) {
	b = store.Ban{BanKey: store.BanKey{Client: r.text(0), Lifted: r.bool(2)}, Reason: r.text(3), By: r.text(4),
		Operator: r.bool(5), Since: r.time(6), Until: r.time(7)}
	if network := r.text(1); network != "" {
		if b.Prefix, err = netip.ParsePrefix(network); err != nil {
			return b, corrupt(err)
		}
	}
	return b, corrupt(b.Validate())
}
