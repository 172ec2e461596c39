package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/store"
	"weir/store/sqlite"
)

// TestStore: the store keeps the contract of package store.
func TestStore(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *subject)
	}{
		{"bans/are put, listed, replaced and removed", bansAreKept},
		{"bans/lifts are kept beside them", liftsAreKept},
		{"bans/end", bansEnd},
		{"bans/all or nothing", bansAllOrNothing},
		{"bans/what makes no sense", bansMistakes},
		{"bans/bounds", bansBounds},
		{"bans/any sequence", bansAnySequence},
		{"counters/the last one saved counts", countersAreKept},
		{"counters/end", countersEnd},
		{"counters/all or nothing", countersAllOrNothing},
		{"counters/what makes no sense", countersMistakes},
		{"counters/bounds", countersBounds},
		{"counters/any sequence", countersAnySequence},
		{"ceilings/are kept, replaced and forgotten", ceilingsAreKept},
		{"ceilings/what makes no sense, and bounds", ceilingsMistakes},
		{"settings/are put, listed, replaced and removed", settingsAreKept},
		{"settings/what makes no sense, and bounds", settingsMistakes},
		{"mail/a transaction is all or nothing", mailAllOrNothing},
		{"mail/a function that panics or leaves", mailPanics},
		{"mail/no update is lost", mailNoLostUpdate},
		{"mail/a view is of one moment", mailView},
		{"mail/a caller who leaves", mailCallerLeaves},
		{"mail/users", mailUsers},
		{"mail/memories", mailMemories},
		{"mail/sketches", mailSketches},
		{"mail/known parts of sketches", mailKnown},
		{"mail/messages", mailMessages},
		{"mail/messages that match", mailQueries},
		{"mail/addressees", mailAddressees},
		{"mail/what is ready", mailReady},
		{"mail/texts", mailTexts},
		{"mail/texts that nobody takes", mailDiscarded},
		{"mail/tickets", mailTickets},
		{"mail/stamps", mailStamps},
		{"mail/a stamp is spent with its mail, or not at all", mailStampsCommit},
		{"mail/audit log", mailEntries},
		{"mail/what makes no sense", mailMistakes},
		{"mail/bounds", mailBounds},
		{"mail/backup", mailBackup},
		{"mail/backup of a running store", mailBackupRunning},
		{"mail/any sequence", mailAnySequence},
		{"access/operators", accessOperators},
		{"access/sessions", accessSessions},
		{"access/tokens", accessTokens},
		{"access/networks of logins", accessLogIns},
		{"access/bounds of networks", accessLogInBounds},
		{"access/what makes no sense, and bounds", accessMistakes},
		{"access/the audit log of acts", auditOfActs},
		{"everything/survives", survives},
		{"everything/many at once", manyAtOnce},
		{"everything/half of a call is never seen", neverHalf},
		{"everything/a caller who leaves", callerLeaves},
		{"everything/closed", closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			s := &subject{tb: t, folder: folder}
			s.open()
			t.Cleanup(func() { s.must(s.store.Close()) })
			test.run(t, s)
		})
	}
}

var epoch = time.Date(2026, 3, 2, 12, 0, 0, 123456789, time.UTC)

type tb interface {
	Helper()
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
	Context() context.Context
}

type subject struct {
	tb
	folder   string
	store    store.Store
	bans     store.Bans
	counters store.Counters
	ceilings store.Ceilings
	mail     store.Mail
}

// opened is the store in a folder: an empty one in an empty folder, and after it was closed the same one again.
func opened(ctx context.Context, folder string) (store.Store, error) {
	return sqlite.Open(ctx, sqlite.Options{Folder: folder})
}

func (s *subject) open() {
	s.Helper()
	var err error
	if s.store, err = opened(s.Context(), s.folder); err != nil {
		s.Fatalf("cannot open: %v", err)
	}
	s.bans, s.counters, s.mail = s.store.Bans(), s.store.Counters(), s.store.Mail()
	s.ceilings = s.store.Ceilings()
}

func (s *subject) reopen() {
	s.Helper()
	s.must(s.store.Close())
	s.open()
}

// anySequence runs cases of rapid, one after the other, against the same store.
func (s *subject) anySequence(t *testing.T, run func(*rapid.T)) {
	rapid.Check(t, func(rt *rapid.T) {
		s.tb = rt // so that rapid reduces a case that fails
		defer func() { s.tb = t }()
		run(rt)
	})
}

func (s *subject) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// fails wants an error to be another one, as errors.Is sees it.
func (s *subject) fails(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("%v, want %v", err, want)
	}
}

// rejects wants each change of something good to make it unfit to be put.
func rejects[T any](s *subject, want error, changes map[string]func(*T), good T, put func(T) error) {
	s.Helper()
	for what, change := range changes {
		changed := good
		change(&changed)
		if err := put(changed); !errors.Is(err, want) {
			s.Errorf("%s: %v, want %v", what, err, want)
		}
	}
}

// A bound is a text, and how many bytes it may have.
type bound struct {
	text *string
	most int
}

// rejectsLong wants something good to be too large to be put when any of its texts is one byte over its bound.
func rejectsLong[T any](s *subject, good T, bounds func(*T) []bound, put func(T) error) {
	s.Helper()
	for i := range bounds(&good) {
		changed := good
		over := bounds(&changed)[i]
		*over.text = long(over.most + 1)
		if err := put(changed); !errors.Is(err, store.ErrTooLarge) {
			s.Errorf("text %d with %d bytes: %v", i, over.most+1, err)
		}
	}
}

// Addresses that no store takes as a source.
var mapped, zoned = netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("fe80::1%eth0")

// lists wants exactly these bans to hold at a time, in order.
func (s *subject) lists(now time.Time, want ...store.Ban) {
	s.Helper()
	got, err := s.bans.List(s.Context(), now)
	s.must(err)
	if len(got) != len(want) {
		s.Fatalf("%d bans, want %d:\n%v\n%v", len(got), len(want), got, want)
	}
	for i := range got {
		if !got[i].Equal(&want[i]) {
			s.Fatalf("ban %d is\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}

// counts wants exactly these counters to count at a time, in any order.
func (s *subject) counts(now time.Time, want ...store.Counter) {
	s.Helper()
	got := map[store.Counter]bool{}
	s.must(s.counters.Load(s.Context(), now, func(c store.Counter) error {
		if got[plain(c)] {
			return fmt.Errorf("twice: %+v", c)
		}
		got[plain(c)] = true
		return nil
	}))
	for _, c := range want {
		if !got[plain(c)] {
			s.Fatalf("missing: %+v\nof %+v", c, got)
		}
	}
	if len(got) != len(want) {
		s.Fatalf("%d counters, want %d: %+v", len(got), len(want), got)
	}
}

// plain is a counter that can be compared with ==.
func plain(c store.Counter) store.Counter {
	c.Period, c.At, c.Until = c.Period.UTC().Round(0), c.At.UTC().Round(0), c.Until.UTC().Round(0)
	return c
}

// pruned wants a call to forget so many entries that are over.
func (s *subject) pruned(prune func(context.Context, time.Time) (int, error), now time.Time, want int) {
	s.Helper()
	n, err := prune(s.Context(), now)
	s.must(err)
	if n != want {
		s.Fatalf("%d were over at %s, want %d", n, now, want)
	}
}

// mayReopen opens the store anew in one case of rapid out of four.
func (s *subject) mayReopen(rt *rapid.T) {
	s.Helper()
	if rapid.IntRange(0, 3).Draw(rt, "again") == 0 {
		s.reopen()
	}
}

func client(id string) store.BanKey { return store.BanKey{Client: id} }

func net(prefix string) store.BanKey { return store.BanKey{Prefix: netip.MustParsePrefix(prefix)} }

func banOf(key store.BanKey) store.Ban {
	return store.Ban{BanKey: key, Reason: "forged stamp", By: "stamp", Since: epoch, Until: epoch.Add(time.Hour)}
}

func counterOf(account string, used int64) store.Counter {
	return store.Counter{
		Throttle: "plans", Rule: "monthly requests fixed month UTC", Account: account, Used: used,
		Period: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC),
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// survives: everything is there after the store was opened again, with times to the nanosecond.
func survives(_ *testing.T, s *subject) {
	ctx := s.Context()
	ban := banOf(client("äöü 漢字 '\"; DROP TABLE bans; --\t%"))
	ban.Operator, ban.By = true, "alice"
	good := store.Ban{BanKey: net("2001:db8::/32")}
	s.must(s.bans.Put(ctx, ban, good))
	month, week := counterOf("acme", 1<<62), counterOf("acme", 7)
	week.Rule, week.Period = "weekly", epoch.Add(-time.Hour)
	nobody := counterOf("", 3)
	nobody.Source, nobody.At = netip.MustParseAddr("2001:db8::1"), epoch
	s.must(s.counters.Save(ctx, []store.Counter{month, week, nobody}))
	for range 3 {
		s.reopen()
		s.lists(epoch, good, ban)
		s.counts(epoch, month, week, nobody)
	}
	s.must(s.bans.Remove(ctx, ban.BanKey))
	week.Used = 0
	s.must(s.save(week))
	s.reopen()
	s.lists(epoch, good)
	s.counts(epoch, month, nobody)
}

// allFail wants every call to fail with one error.
func (s *subject) allFail(ctx context.Context, want error) {
	s.Helper()
	nothing := func(mailTx) error { s.Error("it runs"); return nil }
	for i, err := range []error{
		errorOf(s.bans.List(ctx, epoch)), errorOf(keptBan(ctx, s.bans, client("a"), epoch)),
		s.bans.Put(ctx, banOf(client("b"))), s.bans.Remove(ctx, client("a")), errorOf(s.bans.Prune(ctx, epoch)),
		s.counters.Save(ctx, []store.Counter{counterOf("a", 1)}), errorOf(s.counters.Prune(ctx, epoch)),
		s.counters.Load(ctx, epoch, func(store.Counter) error { return nil }),
		errorOf(s.store.Settings().List(ctx, epoch)), s.store.Settings().Put(ctx, settingOf("limit", "a")),
		s.store.Settings().Forget(ctx, settingOf("limit", "a").SettingKey),
		errorOf(s.store.Settings().Prune(ctx, epoch)),
		s.mail.Update(ctx, nothing), s.mail.View(ctx, nothing), errorOf(s.mail.Open(ctx, 1)),
		errorOf(s.mail.Sweep(ctx, epoch)),
	} {
		if !errors.Is(err, want) {
			s.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
}

// callerLeaves: a caller that has left is not served.
func callerLeaves(_ *testing.T, s *subject) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.allFail(ctx, context.Canceled)
	s.lists(epoch)
	s.counts(epoch)
}

// closed: after Close nothing works, every call returns ErrClosed, and closing again is harmless.
func closed(_ *testing.T, s *subject) {
	ctx := s.Context()
	s.must(s.bans.Put(ctx, banOf(client("a"))))
	s.must(s.store.Close())
	s.must(s.store.Close())
	s.allFail(ctx, store.ErrClosed)
	s.fails(s.bans.Put(ctx), store.ErrClosed)
	s.fails(s.bans.Remove(ctx), store.ErrClosed)
	s.fails(s.counters.Save(ctx, nil), store.ErrClosed)
	s.fails(s.mail.Backup(ctx, "copy", nil), store.ErrClosed)
	s.open()
	s.lists(epoch, banOf(client("a")))
}
