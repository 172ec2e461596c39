package sqlite

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/store"
)

// Bans is the part of the store that keeps the block list.
func (s *Store) Bans() store.Bans { return bans{s} }

type bans struct{ *Store }

const (
	banColumns  = `client, network, reason, by, operator, since, until`
	liftColumns = `client, network, since, until, operator, reason, by`
)

func (b bans) List(ctx context.Context, now time.Time) (all []store.Ban, err error) {
	if err := b.query(ctx, reading(readBan, &all),
		`SELECT `+banColumns+` FROM bans WHERE until IS NULL OR until > ?`, nanos(now)); err != nil {
		return nil, err
	}
	if err := b.query(ctx, reading(readLift, &all),
		`SELECT `+liftColumns+` FROM lifts WHERE until > ?`, nanos(now)); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b store.Ban) int { return a.Compare(b.BanKey) })
	return all, nil
}

func (b bans) Get(ctx context.Context, key store.BanKey, now time.Time) (ban store.Ban, err error) {
	if err := key.Validate(); err != nil {
		return ban, err
	}
	read, query := readBan, `SELECT `+banColumns+` FROM bans`
	if key.Lifted {
		read, query = readLift, `SELECT `+liftColumns+` FROM lifts`
	}
	var found []store.Ban
	err = b.query(ctx, reading(read, &found), query+
		` WHERE client = ? AND network = ? AND (until IS NULL OR until > ?)`, key.Client, network(key), nanos(now))
	switch {
	case err != nil:
		return ban, err
	case len(found) == 0:
		return ban, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return found[0], nil
}

func (b bans) Put(ctx context.Context, all ...store.Ban) error {
	return writeAll(ctx, b.Store, all, func(t *tx, v *store.Ban) error {
		if v.Lifted {
			return t.put(nil, `INSERT OR REPLACE INTO lifts (`+liftColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)`, v.Client,
				network(v.BanKey), nanos(v.Since), nanos(v.Until), v.Operator, v.Reason, v.By)
		}
		return t.put(nil, `INSERT OR REPLACE INTO bans (`+banColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)`, v.Client,
			network(v.BanKey), v.Reason, v.By, v.Operator, optional(v.Since), optional(v.Until))
	})
}

func (b bans) Remove(ctx context.Context, keys ...store.BanKey) error {
	return writeAll(ctx, b.Store, keys, func(t *tx, key *store.BanKey) error {
		from := "bans"
		if key.Lifted {
			from = "lifts"
		}
		return t.put(nil, `DELETE FROM `+from+` WHERE client = ? AND network = ?`, key.Client, network(*key))
	})
}

func (b bans) Prune(ctx context.Context, now time.Time) (int, error) {
	bans, err := b.prune(ctx, `DELETE FROM bans WHERE until <= ?`, now)
	if err != nil {
		return bans, err
	}
	lifts, err := b.prune(ctx, `DELETE FROM lifts WHERE until <= ?`, now)
	return bans + lifts, err
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
func reading(read func(row) (store.Ban, error), all *[]store.Ban) func(row) error {
	return func(r row) error {
		b, err := read(r)
		*all = append(*all, b)
		return err
	}
}

func readBan(r row) (store.Ban, error) {
	return readBanned(store.Ban{BanKey: store.BanKey{Client: r.text(0)}, Reason: r.text(2), By: r.text(3),
		Operator: r.bool(4), Since: r.time(5), Until: r.time(6)}, r.text(1))
}

func readLift(r row) (store.Ban, error) {
	return readBanned(store.Ban{BanKey: store.BanKey{Client: r.text(0), Lifted: true}, Since: r.time(2),
		Until: r.time(3), Operator: r.bool(4), Reason: r.text(5), By: r.text(6)}, r.text(1))
}

func readBanned(b store.Ban, network string) (_ store.Ban, err error) {
	if network != "" {
		if b.Prefix, err = netip.ParsePrefix(network); err != nil {
			return b, corrupt(err)
		}
	}
	return b, corrupt(b.Validate())
}
