package sqlite_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/store"
)

func bansAreKept(_ *testing.T, s *subject) {
	ctx := s.Context()
	s.lists(epoch)
	s.must(s.bans.Put(ctx))
	all := []store.Ban{
		// by address, the wider one first
		banOf(net("192.0.2.0/24")), banOf(net("192.0.2.7/32")), banOf(net("2001:db8::/32")),
		banOf(client("192.0.2.0/24")), banOf(client("Zoë")), banOf(client("a")), banOf(client("ab")),
	}
	shuffled := slices.Clone(all)
	slices.Reverse(shuffled)
	s.must(s.bans.Put(ctx, shuffled...))
	clear(shuffled) // it is the caller's
	s.lists(epoch, all...)
	for i := range all {
		got, err := keptBan(ctx, s.bans, all[i].BanKey, epoch)
		s.must(err)
		if !got.Equal(&all[i]) {
			s.Errorf("%+v, want %+v", got, all[i])
		}
	}
	s.must(s.bans.Put(ctx, all...)) // twice is as good as once
	s.lists(epoch, all...)

	other := store.Ban{BanKey: all[0].BanKey, Reason: "scraper", By: "bob", Operator: true,
		Since: epoch.Add(time.Minute)}
	s.must(s.bans.Put(ctx, banOf(other.BanKey), other)) // of two with one key the last counts
	all[0] = other
	s.lists(epoch, all...)

	s.must(s.bans.Remove(ctx, all[1].BanKey, client("nobody"), all[6].BanKey, all[6].BanKey))
	s.must(s.bans.Remove(ctx, all[1].BanKey))
	s.must(s.bans.Remove(ctx))
	s.fails(errorOf(keptBan(ctx, s.bans, all[1].BanKey, epoch)), store.ErrNotFound)
	s.lists(epoch, slices.Delete(all[:6], 1, 2)...)
}

// liftsAreKept: a lift is kept beside a ban of the same client or network, and each goes by itself.
func liftsAreKept(_ *testing.T, s *subject) {
	ctx := s.Context()
	lift := func(b store.Ban) store.Ban {
		b.Lifted, b.Operator = true, true
		return b
	}
	b, of := banOf(net("192.0.2.0/24")), banOf(client("a"))
	all := []store.Ban{b, lift(b), lift(of)}
	s.must(s.bans.Put(ctx, all[2], all[1], all[0]))
	s.reopen()
	s.lists(epoch, all...)
	for i := range all {
		got, err := keptBan(ctx, s.bans, all[i].BanKey, epoch)
		s.must(err)
		if !got.Equal(&all[i]) {
			s.Errorf("%+v, want %+v", got, all[i])
		}
	}
	s.fails(errorOf(keptBan(ctx, s.bans, of.BanKey, epoch)), store.ErrNotFound)
	later := all[1]
	later.Since, later.Until = epoch.Add(time.Minute), epoch.Add(2*time.Hour)
	s.must(s.bans.Put(ctx, later))
	s.lists(epoch, b, later, all[2])
	s.must(s.bans.Remove(ctx, b.BanKey, of.BanKey))
	s.lists(epoch, later, all[2])
	s.must(s.bans.Remove(ctx, all[2].BanKey))
	s.lists(epoch, later)
	s.lists(later.Until)
	s.pruned(s.bans.Prune, epoch.Add(time.Hour), 0)
	s.must(s.bans.Put(ctx, b))
	s.pruned(s.bans.Prune, later.Until, 2)
	s.lists(epoch)
}

func bansEnd(_ *testing.T, s *subject) {
	ctx := s.Context()
	short, hour, good := banOf(client("a")), banOf(client("b")), banOf(client("c"))
	short.Until, good.Until = epoch.Add(time.Nanosecond), time.Time{}
	s.must(s.bans.Put(ctx, short, hour, good))
	s.lists(epoch, short, hour, good)
	s.lists(short.Until, hour, good) // it ends at that very moment
	s.fails(errorOf(keptBan(ctx, s.bans, short.BanKey, short.Until)), store.ErrNotFound)
	s.lists(epoch.Add(100*365*24*time.Hour), good)

	s.pruned(s.bans.Prune, epoch, 0)
	s.lists(epoch, short, hour, good)
	s.pruned(s.bans.Prune, short.Until, 1)
	s.lists(epoch, hour, good)
	s.pruned(s.bans.Prune, epoch.Add(24*time.Hour), 1)
	s.reopen()
	s.lists(epoch, good)
}

// bansAllOrNothing: one wrong ban in a call keeps all others of the call out, whatever its position.
func bansAllOrNothing(_ *testing.T, s *subject) {
	ctx := s.Context()
	for _, at := range []int{0, 50, 99} {
		batch := manyBans(100)
		batch[at].Client = ""
		s.fails(s.bans.Put(ctx, batch...), store.ErrInvalid)
		s.lists(epoch)
	}
	s.must(s.bans.Put(ctx, manyBans(100)...))
	keys := keysOf(manyBans(100))
	keys[99].Client = long(store.MaxClient + 1)
	s.fails(s.bans.Remove(ctx, keys...), store.ErrTooLarge)
	s.lists(epoch, manyBans(100)...)
}

// manyBans are n bans in the order in which they are listed.
func manyBans(n int) []store.Ban {
	all := make([]store.Ban, n)
	for i := range all {
		all[i] = banOf(client(fmt.Sprintf("client-%06d", i)))
	}
	return all
}

func keysOf(bans []store.Ban) (keys []store.BanKey) {
	for _, b := range bans {
		keys = append(keys, b.BanKey)
	}
	return keys
}

func (s *subject) putBan(b store.Ban) error { return s.bans.Put(s.Context(), b) }

func bansMistakes(_ *testing.T, s *subject) {
	ctx := s.Context()
	rejects(s, store.ErrInvalid, map[string]func(*store.Ban){
		"nobody":              func(b *store.Ban) { b.BanKey = store.BanKey{} },
		"both":                func(b *store.Ban) { b.Prefix = netip.MustParsePrefix("192.0.2.0/24") },
		"host bits":           func(b *store.Ban) { b.BanKey = net("192.0.2.1/24") },
		"IPv4 in IPv6":        func(b *store.Ban) { b.BanKey = net("::ffff:192.0.2.0/120") },
		"no UTF-8":            func(b *store.Ban) { b.Client = "\xff" },
		"a zero byte":         func(b *store.Ban) { b.Reason = "a\x00b" },
		"who is not UTF-8":    func(b *store.Ban) { b.By = "\xc3" },
		"before the epoch":    func(b *store.Ban) { b.Since = time.Unix(-1, 0) },
		"a lift without end":  func(b *store.Ban) { b.Lifted, b.Until = true, time.Time{} },
		"a lift at no time":   func(b *store.Ban) { b.Lifted, b.Since = true, time.Time{} },
		"beyond all calendar": func(b *store.Ban) { b.Until = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) },
	}, banOf(client("a")), s.putBan)
	s.fails(s.bans.Remove(ctx, store.BanKey{}), store.ErrInvalid)
	s.lists(epoch)
}

func bansBounds(_ *testing.T, s *subject) {
	ctx := s.Context()
	most := banOf(client(long(store.MaxClient)))
	most.Reason, most.By = long(store.MaxReason), long(store.MaxBy)
	s.must(s.bans.Put(ctx, most))
	rejectsLong(s, banOf(client("a")), func(b *store.Ban) []bound {
		return []bound{{&b.Client, store.MaxClient}, {&b.Reason, store.MaxReason}, {&b.By, store.MaxBy}}
	}, s.putBan)
	s.lists(epoch, most)
	s.must(s.bans.Remove(ctx, most.BanKey))

	batch := manyBans(store.MaxBatch + 1)
	s.fails(s.bans.Put(ctx, batch...), store.ErrTooLarge)
	s.lists(epoch)
	s.must(s.bans.Put(ctx, batch[:store.MaxBatch]...))
	s.lists(epoch, batch[:store.MaxBatch]...)
	keys := keysOf(batch)
	s.fails(s.bans.Remove(ctx, keys...), store.ErrTooLarge)
	s.must(s.bans.Remove(ctx, keys[:store.MaxBatch]...))
	s.lists(epoch)
}

// bansAnySequence compares the store with a map, also after it was opened again.
func bansAnySequence(t *testing.T, s *subject) {
	s.anySequence(t, func(rt *rapid.T) {
		ctx := s.Context()
		model := map[store.BanKey]store.Ban{}
		left, err := s.bans.List(ctx, time.Unix(0, 0)) // by the case before
		s.must(err)
		s.must(s.bans.Remove(ctx, keysOf(left)...))
		now := epoch
		keys := rapid.SampledFrom([]store.BanKey{client("a"), client("b"), client("c"), net("10.0.0.0/8"), net("::/0"),
			net("10.1.2.3/32")})
		bans := rapid.Custom(func(t *rapid.T) store.Ban {
			b := store.Ban{BanKey: keys.Draw(t, "key"), Reason: rapid.StringMatching(`[a-zä]{0,8}`).Draw(t, "reason"),
				Operator: rapid.Bool().Draw(t, "operator")}
			b.Since, b.Lifted = now, rapid.IntRange(0, 3).Draw(t, "lifted") == 0
			if minutes := rapid.IntRange(0, 60).Draw(t, "minutes"); minutes > 0 || b.Lifted {
				b.Until = now.Add(time.Duration(minutes) * time.Minute)
			}
			return b
		})
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2, 3:
				batch := rapid.SliceOfN(bans, 1, 4).Draw(rt, "put")
				s.must(s.bans.Put(ctx, batch...))
				for _, b := range batch {
					model[b.BanKey] = b
				}
			case 4, 5, 6:
				batch := rapid.SliceOfN(keys, 1, 3).Draw(rt, "remove")
				batch[0].Lifted = rapid.Bool().Draw(rt, "lift")
				s.must(s.bans.Remove(ctx, batch...))
				for _, key := range batch {
					delete(model, key)
				}
			case 7:
				before := len(model)
				maps.DeleteFunc(model, func(_ store.BanKey, b store.Ban) bool { return !b.Holds(now) })
				s.pruned(s.bans.Prune, now, before-len(model))
			case 8:
				now = now.Add(time.Duration(rapid.IntRange(1, 40).Draw(rt, "on")) * time.Minute)
			case 9:
				s.mayReopen(rt)
			}
			want := slices.SortedFunc(maps.Values(model), func(a, b store.Ban) int { return a.Compare(b.BanKey) })
			s.lists(now, slices.DeleteFunc(want, func(b store.Ban) bool { return !b.Holds(now) })...)
		}
	})
}

// keptBan returns what a store has of a key, or store.ErrNotFound.
func keptBan(ctx context.Context, s store.Bans, key store.BanKey, now time.Time) (store.Ban, error) {
	all, err := s.List(ctx, now)
	if i := slices.IndexFunc(all, func(b store.Ban) bool { return b.BanKey == key }); i >= 0 {
		return all[i], err
	}
	return store.Ban{}, cmp.Or(err, store.ErrNotFound)
}
