package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/store"
)

// stopped opens a store whose writer does not run yet.
func stopped(t *testing.T, o Options) *Store {
	t.Helper()
	o.Folder = t.TempDir()
	s, err := open(t.Context(), o, migrations)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// clients are the ids of the clients that are banned.
func clients(t *testing.T, s *Store) (ids []string) {
	t.Helper()
	all, err := s.Bans().List(t.Context(), epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		ids = append(ids, b.Client)
	}
	return ids
}

// put puts a write into the queue as Put does, and returns it.
func put(t *testing.T, s *Store, ctx context.Context, ids ...string) *write {
	t.Helper()
	w, err := s.enqueue(ctx, nil, len(ids), func(t *tx) error {
		for _, id := range ids {
			if err := t.put(nil, `INSERT INTO bans VALUES (?, '', 0, '', '', 0, NULL, NULL)`, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// What waits is committed together, and a call that fails takes nothing and nobody with it.
func TestAGroupIsOneCommit(t *testing.T) {
	s := stopped(t, Options{})
	ctx, leave := context.WithCancel(t.Context())
	a, b := put(t, s, t.Context(), "a"), put(t, s, t.Context(), "b", "c")
	double := put(t, s, t.Context(), "d", "e", "b")
	again := put(t, s, t.Context(), "a")
	left := put(t, s, ctx, "f")
	g := put(t, s, t.Context(), "g")
	leave()
	go s.run()
	for _, w := range []*write{a, b, g} {
		if <-w.done; w.err != nil {
			t.Error(w.err)
		}
	}
	for _, w := range []*write{double, again} {
		if <-w.done; w.err == nil || !strings.Contains(w.err.Error(), "UNIQUE") {
			t.Error(w.err)
		}
	}
	if <-left.done; !errors.Is(left.err, context.Canceled) {
		t.Error(left.err)
	}
	if got := clients(t, s); !slices.Equal(got, []string{"a", "b", "c", "g"}) {
		t.Error(got)
	}
	if got := s.Stats(); got != (Stats{Writes: 3, Commits: 1, Failures: 2}) {
		t.Errorf("%+v", got)
	}
}

func TestAGroupIsBounded(t *testing.T) {
	s := stopped(t, Options{})
	for i := range maxGroup + 1 {
		put(t, s, t.Context(), fmt.Sprint(i))
	}
	last := put(t, s, t.Context(), "last")
	go s.run()
	if <-last.done; last.err != nil {
		t.Error(last.err)
	}
	if got := s.Stats(); got.Commits != 2 || got.Writes != maxGroup+2 {
		t.Errorf("%+v", got)
	}
}

// As many writes as may wait do, one more is refused, and those who wait are served.
func TestTheQueueIsBounded(t *testing.T) {
	const most = 10
	s := stopped(t, Options{MaxWaiting: most})
	var waiting []*write
	for i := range most {
		waiting = append(waiting, put(t, s, t.Context(), fmt.Sprint(i)))
	}
	err := s.Bans().Put(t.Context(), banOf("one more"))
	if !errors.Is(err, store.ErrTooMany) || !strings.Contains(err.Error(), "10") {
		t.Error(err)
	}
	if got := s.Stats(); got.Waiting != most || got.Refused != 1 {
		t.Errorf("%+v", got)
	}
	go s.run()
	for _, w := range waiting {
		if <-w.done; w.err != nil {
			t.Error(w.err)
		}
	}
	if got := clients(t, s); len(got) != most {
		t.Error(got)
	}
	if err := s.Bans().Put(t.Context(), banOf("one more")); err != nil {
		t.Error(err)
	}
}

// Close serves everybody who came before it, and nobody after.
func TestCloseFlushes(t *testing.T) {
	s := stopped(t, Options{})
	folder := s.files.folder
	var all []*write
	for i := range 100 {
		all = append(all, put(t, s, t.Context(), fmt.Sprint(i)))
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	needs.Wait(t, "the store is being closed", func() bool { return s.alive() != nil })
	go s.run()
	wg.Wait()
	for _, w := range all {
		if <-w.done; w.err != nil {
			t.Error(w.err)
		}
	}
	if got := clients(t, mustOpen(t, Options{Folder: folder})); len(got) != 100 {
		t.Errorf("%d of 100 are there", len(got))
	}
}

// While somebody still reads, the files stay weir's.
func TestCloseWaitsForReaders(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir()})
	c := store.Counter{Throttle: "plans", Rule: "monthly", Account: "a", Period: epoch, Used: 1,
		Until: epoch.Add(time.Hour)}
	if err := s.Counters().Save(t.Context(), []store.Counter{c}); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	err := s.Counters().Load(t.Context(), epoch, func(store.Counter) error {
		go func() { closed <- s.Close() }()
		<-s.idle
		for range 20 {
			cannotOpen(t, Options{Folder: s.files.folder}, store.ErrInUse)
		}
		return s.Counters().Save(t.Context(), []store.Counter{c})
	})
	if !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	mustOpen(t, Options{Folder: s.files.folder})
}

// A caller who leaves while another program holds the file is let go at once.
func TestACallerMayLeave(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir(), Patience: time.Minute})
	tool := raw(t, s.files.folder)
	execute(t, tool, "BEGIN IMMEDIATE")
	ctx, leave := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- s.Bans().Put(ctx, banOf("a")) }()
	leave()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	execute(t, tool, "ROLLBACK")
	if err := s.Bans().Put(t.Context(), banOf("b")); err != nil {
		t.Error(err)
	}
}

// What a caller does with its own slice after it has left is of no concern.
func TestACallerWhoLeftMayUseItsSlice(t *testing.T) {
	s := stopped(t, Options{})
	ctx, leave := context.WithCancel(t.Context())
	bans := []store.Ban{banOf("a"), banOf("b")}
	result := make(chan error)
	go func() { result <- s.Bans().Put(ctx, bans...) }()
	w := <-s.queue // it is under way
	leave()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	clear(bans)
	s.commit([]*write{w})
	if got := clients(t, s); w.err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Error(got, w.err)
	}
	go s.run()
}

func TestAnotherProgramHoldsTheFile(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir(), Patience: time.Millisecond})
	tool := raw(t, s.files.folder)
	execute(t, tool, "BEGIN IMMEDIATE")
	if err := s.Bans().Put(t.Context(), banOf("a")); !errors.Is(err, store.ErrBusy) ||
		!strings.Contains(err.Error(), s.Path()) {
		t.Error(err)
	}
	if got := clients(t, s); got != nil { // reading goes on
		t.Error(got)
	}
	execute(t, tool, "COMMIT")
	if err := s.Bans().Put(t.Context(), banOf("a")); err != nil {
		t.Error(err)
	}
}

// Where there is no space, a call fails whole, what is stored stays, and after something was removed there is space
// again.
func TestAFullDisk(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir(), MaxBytes: 384 << 10})
	var kept []string
	batch := func(n, size int) (all []store.Ban) {
		for i := range size {
			b := banOf(fmt.Sprintf("%03d-%04d", n, i))
			b.Reason = strings.Repeat("x", store.MaxReason)
			all = append(all, b)
		}
		return all
	}
	var err error
	for n := 0; ; n++ {
		all := batch(n, 50)
		if err = s.Bans().Put(t.Context(), all...); err != nil {
			break
		}
		for _, b := range all {
			kept = append(kept, b.Client)
		}
		if n > 100 {
			t.Fatal("it is never full")
		}
	}
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), s.Path()) {
		t.Fatal(err)
	}
	if got := clients(t, s); !slices.Equal(got, kept) {
		t.Errorf("%d are there, %d were kept", len(got), len(kept))
	}

	// In one commit: one that is too large for what is left, and others for which there is space, or which make some.
	var wg sync.WaitGroup
	results := make([]error, 3)
	wg.Go(func() { results[0] = s.Bans().Put(t.Context(), batch(900, 500)...) })
	wg.Go(func() { results[1] = s.Bans().Remove(t.Context(), store.BanKey{Client: kept[0]}) })
	wg.Go(func() { _, results[2] = s.Counters().Prune(t.Context(), epoch) })
	wg.Wait()
	if !errors.Is(results[0], store.ErrFull) || results[1] != nil || results[2] != nil {
		t.Error(results)
	}
	if got := clients(t, s); !slices.Equal(got, kept[1:]) {
		t.Errorf("%d are there, want %d", len(got), len(kept)-1)
	}
	for _, id := range kept[1:60] {
		if err := s.Bans().Remove(t.Context(), store.BanKey{Client: id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Bans().Put(t.Context(), batch(901, 20)...); err != nil {
		t.Error("there is room again:", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := clients(t, mustOpen(t, Options{Folder: s.files.folder})); len(got) != len(kept)-60+20 {
		t.Errorf("%d are there", len(got))
	}
}

// The same in one group, so that it is sure that they meet.
func TestAFullDiskInAGroup(t *testing.T) {
	s := stopped(t, Options{MaxBytes: MinBytes})
	var many []string
	for i := range 3000 {
		many = append(many, fmt.Sprintf("%s-%d", strings.Repeat("y", 100), i))
	}
	a, large, b := put(t, s, t.Context(), "a"), put(t, s, t.Context(), many...), put(t, s, t.Context(), "b")
	go s.run()
	<-a.done
	<-large.done
	<-b.done
	if a.err != nil || !errors.Is(large.err, store.ErrFull) || b.err != nil {
		t.Error(a.err, large.err, b.err)
	}
	if got := clients(t, s); !slices.Equal(got, []string{"a", "b"}) {
		t.Error(got)
	}
}
