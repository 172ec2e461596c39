package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
	"weir/store"
)

// enqueue puts an update into the queue as Update does.
func enqueue(t *testing.T, s *Store, ctx context.Context, f func(store.MailTx) error) *write {
	t.Helper()
	w, err := s.enqueue(ctx, &tx{f: f, files: &s.files, texts: &s.texts}, 1, (*tx).update)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// In one group, what fails, panics or never returns takes nothing and nobody with it.
func TestUpdatesInAGroup(t *testing.T) {
	s := stopped(t, Options{})
	ran := map[string]int{}
	no := errors.New("no")
	user := func(name string, then func() error) *write {
		return enqueue(t, s, t.Context(), func(tx store.MailTx) error {
			ran[name]++
			if err := tx.PutUser(store.User{Name: name}); err != nil {
				return err
			}
			return then()
		})
	}
	fine := func() error { return nil }
	var good, bad []*write
	good = append(good, user("a", fine), put(t, s, t.Context(), "banned", "too"))
	bad = append(bad, user("b", func() error { return no }))
	good = append(good, user("c", fine))
	bad = append(bad, user("d", func() error { panic("oh, no") }), put(t, s, t.Context(), "banned"))
	bad = append(bad, user("e", func() error { runtime.Goexit(); return nil }))
	good = append(good, user("f", fine))
	bad = append(bad, user("g", func() error { runtime.Goexit(); return nil }),
		enqueue(t, s, t.Context(), func(store.MailTx) error { return no }))
	good = append(good, user("h", fine), put(t, s, t.Context(), "other"))
	go s.run()
	for _, w := range append(good, bad...) {
		<-w.done
	}
	for _, w := range good {
		if w.err != nil {
			t.Error(w.err)
		}
	}
	if bad[0].err != no || !strings.Contains(bad[1].err.Error(), "oh, no") || breaks(bad[2].err) == 0 ||
		bad[3].err != errGone || bad[4].err != errGone || bad[5].err != no {
		for _, w := range bad {
			t.Error(w.err)
		}
	}
	if got := names(t, s); !slices.Equal(got, []string{"a", "c", "f", "h"}) {
		t.Error(got)
	}
	if got := clients(t, s); !slices.Equal(got, []string{"banned", "other", "too"}) {
		t.Error(got)
	}
	if got := s.Stats(); got != (Stats{Writes: 6, Commits: 1, Failures: 6}) {
		t.Errorf("%+v", got)
	}
	for name, n := range ran { // once or twice, and again for each that has ended the writer
		if n > 6 {
			t.Errorf("%s ran %d times", name, n)
		}
	}
}

// Nobody pays for savepoints as long as nobody needs them, and a function that fails before it writes does not need
// them.
func TestAFunctionRunsOnce(t *testing.T) {
	s := stopped(t, Options{})
	no, ran := errors.New("no"), 0
	var all []*write
	for i := range 10 {
		all = append(all, enqueue(t, s, t.Context(), func(tx store.MailTx) error {
			ran++
			if _, err := tx.User("ann"); i%2 == 0 {
				return errors.Join(no, err)
			}
			return tx.PutUser(store.User{Name: fmt.Sprint(i)})
		}))
	}
	go s.run()
	for i, w := range all {
		if <-w.done; (w.err != nil) != (i%2 == 0) {
			t.Error(w.err)
		}
	}
	if ran != 10 || len(names(t, s)) != 5 {
		t.Error(ran, names(t, s))
	}
}

// A caller who leaves while waiting is not served. One who leaves later waits for the end, as the function may run.
func TestAnUpdateMayBeLeft(t *testing.T) {
	s := stopped(t, Options{})
	ctx, leave := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		result <- s.Mail().Update(ctx, func(tx store.MailTx) error { return tx.PutUser(store.User{Name: "never"}) })
	}()
	needs.Wait(t, "the caller waits", func() bool { return len(s.queue) > 0 })
	leave()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	ctx, leave = context.WithCancel(t.Context())
	returned := false
	go func() {
		err := s.Mail().Update(ctx, func(tx store.MailTx) error { return tx.PutUser(store.User{Name: "ann"}) })
		returned = true
		result <- err
	}()
	left, w := <-s.queue, <-s.queue
	if group := s.gather(left); len(group) != 0 {
		t.Error("the first one is served after all")
	}
	w.state.Store(taken)
	leave()
	for range 100 {
		runtime.Gosched()
	}
	s.commit([]*write{w})
	if err := <-result; err != nil || !returned {
		t.Error(err, returned)
	}
	if got := names(t, s); !slices.Equal(got, []string{"ann"}) {
		t.Error(got)
	}
	go s.run()
}

// A group that is too much for one commit takes several.
func TestUpdatesAreNotTooMuchAtOnce(t *testing.T) {
	s := stopped(t, Options{})
	var all []*write
	for i := range 5 {
		all = append(all, enqueue(t, s, t.Context(), func(change store.MailTx) error {
			change.(*tx).session.work += maxRows/2 + 1 // as if it were a mail to many
			return change.PutUser(store.User{Name: fmt.Sprint(i)})
		}))
	}
	go s.run()
	for _, w := range all {
		if <-w.done; w.err != nil {
			t.Error(w.err)
		}
	}
	if got := s.Stats(); got.Commits != 3 || got.Writes != 5 {
		t.Errorf("%+v", got)
	}
}

// Where there is no space, an update fails whole, what is there stays, and mail can still be delivered, which makes
// space.
func TestAFullDiskForMail(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir(), MaxBytes: 512 << 10})
	m := s.Mail()
	var kept []store.MailID
	var err error
	for id := store.MailID(1); ; id++ {
		if err = m.Update(t.Context(), func(tx store.MailTx) error {
			if err := message(tx, id, inline(strings.Repeat("x", 4096))); err != nil {
				return fmt.Errorf("mine: %w", err)
			}
			return nil
		}); err != nil {
			break
		}
		if kept = append(kept, id); id > 1000 {
			t.Fatal("it is never full")
		}
	}
	if !errors.Is(err, store.ErrFull) || !strings.HasPrefix(err.Error(), "mine: "+s.Path()) {
		t.Fatal(err)
	}
	// A function that makes nothing of it does not get away with it.
	if err := m.Update(t.Context(), func(tx store.MailTx) error {
		_ = message(tx, 5000, inline(strings.Repeat("x", store.MaxInline)))
		return nil
	}); !errors.Is(err, store.ErrFull) {
		t.Error(err)
	}
	for _, id := range kept {
		if err := m.Update(t.Context(), func(tx store.MailTx) error {
			a, err := tx.Addressees(id)
			if err != nil {
				return err
			}
			a[0].State, a[0].Owner = store.Sending, "host/1"
			return tx.PutAddressees(a...)
		}); err != nil {
			t.Fatal("cannot be claimed:", err)
		}
		if err := m.Update(t.Context(), func(tx store.MailTx) error { return tx.RemoveAddressees(id, 0) }); err != nil {
			t.Fatal("cannot be removed:", err)
		}
	}
	if err := m.Update(t.Context(),
		func(tx store.MailTx) error {
			return message(tx, 5000,
				inline(strings.Repeat("x", store.MaxInline)))
		}); err != nil {
		t.Error("there is room again:", err)
	}
}

// The same in one group, so that it is sure that they meet.
func TestAFullDiskForMailInAGroup(t *testing.T) {
	s := stopped(t, Options{MaxBytes: MinBytes})
	large := func(id store.MailID) *write {
		return enqueue(t, s, t.Context(), func(tx store.MailTx) error {
			for i := range store.MailID(10) {
				if err := message(tx, id+i, inline(strings.Repeat("x", store.MaxInline))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	user := func(name string) *write {
		return enqueue(t, s, t.Context(), func(tx store.MailTx) error { return tx.PutUser(store.User{Name: name}) })
	}
	all := []*write{user("a"), large(1), user("b"), large(100), put(t, s, t.Context(), "banned"), user("c")}
	go s.run()
	for i, w := range all {
		<-w.done
		if full := i == 1 || i == 3; full && !errors.Is(w.err, store.ErrFull) || !full && w.err != nil {
			t.Error(i, w.err)
		}
	}
	if got := names(t, s); !slices.Equal(got, []string{"a", "b", "c"}) || len(clients(t, s)) != 1 {
		t.Error(got)
	}
}
