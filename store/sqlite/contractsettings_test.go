package sqlite_test

import (
	"slices"
	"testing"
	"time"

	"weir/store"
)

func settingOf(kind, name string) store.Setting {
	return store.Setting{SettingKey: store.SettingKey{Kind: kind, Name: name}, Value: `{"limit":"5"}`, By: "alice",
		At: epoch}
}

// settings wants exactly these to be listed at a time, in this order.
func (s *subject) settings(now time.Time, want ...store.Setting) {
	s.Helper()
	got, err := s.store.Settings().List(s.Context(), now)
	s.must(err)
	if !slices.EqualFunc(got, want, func(a, b store.Setting) bool { return a.Equal(&b) }) {
		s.Fatalf("settings %+v, want %+v", got, want)
	}
}

func settingsAreKept(_ *testing.T, s *subject) {
	ctx, kept := s.Context(), s.store.Settings()
	s.settings(epoch)
	s.must(kept.Put(ctx))
	all := []store.Setting{settingOf("limit", "a"), settingOf("limit", "b \"'; --"), settingOf("shadow", "a")}
	s.must(kept.Put(ctx, all[2], all[0], all[1]))
	s.settings(epoch, all...)
	removed := store.Setting{SettingKey: all[0].SettingKey, By: "bob", At: epoch, Until: epoch.Add(time.Hour)}
	s.must(kept.Put(ctx, settingOf("limit", "a"), removed)) // of two with one key the last counts
	all[0] = removed
	s.settings(epoch, all...)
	s.reopen()
	kept = s.store.Settings()
	s.settings(epoch, all...)
	s.settings(epoch.Add(time.Hour), all[1:]...) // it is over
	s.must(kept.Forget(ctx, all[1].SettingKey, store.SettingKey{Kind: "limit", Name: "nobody"}))
	s.settings(epoch, all[0], all[2])
	if n, err := kept.Prune(ctx, epoch.Add(time.Hour)); err != nil || n != 1 {
		s.Errorf("pruned %d, %v", n, err)
	}
	s.settings(epoch, all[2])
}

func settingsMistakes(_ *testing.T, s *subject) {
	ctx, kept := s.Context(), s.store.Settings()
	put := func(v store.Setting) error { return kept.Put(ctx, v) }
	rejects(s, store.ErrInvalid, map[string]func(*store.Setting){
		"no kind":           func(v *store.Setting) { v.Kind = "" },
		"no name":           func(v *store.Setting) { v.Name = "" },
		"a zero byte":       func(v *store.Setting) { v.Value = "a\x00" },
		"no UTF-8":          func(v *store.Setting) { v.Name = "\xff" },
		"no time":           func(v *store.Setting) { v.At = time.Time{} },
		"removed forever":   func(v *store.Setting) { v.Value = "" },
		"ends before 1970":  func(v *store.Setting) { v.Until = time.Unix(-1, 0) },
		"who is not UTF-8":  func(v *store.Setting) { v.By = "\xc3" },
		"beyond a calendar": func(v *store.Setting) { v.At = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) },
	}, settingOf("limit", "a"), put)
	most := settingOf(long(store.MaxSettingKind), long(store.MaxSettingName))
	most.Value, most.By = long(store.MaxSettingValue), long(store.MaxBy)
	s.must(put(most))
	rejectsLong(s, settingOf("limit", "a"), func(v *store.Setting) []bound {
		return []bound{{&v.Kind, store.MaxSettingKind}, {&v.Name, store.MaxSettingName},
			{&v.Value, store.MaxSettingValue}, {&v.By, store.MaxBy}}
	}, put)
	s.settings(epoch, most)
	s.fails(kept.Forget(ctx, store.SettingKey{}), store.ErrInvalid)
}
