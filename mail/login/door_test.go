package login

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/internal/clock"
	"weir/internal/turns"
	"weir/store"
	"weir/store/sqlite"
	"weir/throttle/quota"
)

const right = "correct horse"

// A house has a door over a real store, with a limit for each user and one for each network of strangers.
type house struct {
	*Door
	t               *testing.T
	clock           *clock.Fake
	folder, stored  string
	users, networks *quota.Quota
	store           *sqlite.Store
	writes          int
	failed          []error
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, clock: clock.NewFake(start), folder: t.TempDir(), stored: cheap(t, right)}
	h.open()
	t.Cleanup(func() { h.store.Close() })
	return h
}

// open starts anew: what is not in the store is forgotten.
func (h *house) open() {
	h.t.Helper()
	if h.store != nil {
		h.store.Close()
	}
	var err error
	if h.store, err = sqlite.Open(h.t.Context(), sqlite.Options{Folder: h.folder}); err != nil {
		h.t.Fatal(err)
	}
	h.users, h.networks = evenly(h.t, 20), evenly(h.t, 20)
	h.Door = &Door{Verifier: New(Options{Clock: h.clock, Remember: -1, HashMemory: 8}),
		Store: counting{h.store.Access(), h}, Own: evenly(h.t, 20),
		Failed: func(err error) { h.failed = append(h.failed, err) }}
}

// evenly is a limit of so many at once, and one more in thirty seconds.
func evenly(t *testing.T, most int64) *quota.Quota {
	t.Helper()
	q, err := quota.New(quota.Options{Policies: []quota.Policy{{Name: "wrong", Limit: quota.Count(most),
		Window: quota.GCRA, Period: weir.Period{Length: time.Duration(most) * 30 * time.Second}}}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// counting counts the writes.
type counting struct {
	store.Access
	house *house
}

func (c counting) Update(ctx context.Context, f func(store.AccessTx) error) error {
	c.house.writes++
	return c.Access.Update(ctx, f)
}

// try logs somebody in. Only users whose names begin with "user" are there.
func (h *house) try(from, name, password string) error {
	a := &Attempt{Name: name, Password: password, Source: netip.MustParseAddr(from),
		Event: func() weir.Event { return weir.Event{Time: h.clock.Now(), Account: name} },
		Limits: []Limit{{h.networks, "network " + from, "network " + from},
			{h.users, "user " + name, ""}}}
	if len(name) >= 4 && name[:4] == "user" {
		a.Stored = h.stored
	}
	return h.LogIn(h.t.Context(), a)
}

// gets wants so many attempts to have one result.
func (h *house) gets(want error, times int, from, name, password string) {
	h.t.Helper()
	for i := range times {
		if err := h.try(from, name, password); !errors.Is(err, want) {
			h.t.Fatalf("attempt %d of %s from %s: %v, want %v", i, name, from, err, want)
		}
	}
}

const home, elsewhere = "192.0.2.1", "198.51.100.7"

// Wrong passwords from elsewhere never delay a user in a network from which they have logged in within thirty days,
// also after a restart, and in any spelling of its addresses.
func TestKnownNetwork(t *testing.T) {
	h := newHouse(t)
	h.gets(nil, 1, home, "user", right)
	h.gets(nil, 1, "2001:db8::1", "user", right)
	h.open()
	for i := range 25 { // many networks, one user
		h.gets([]error{ErrWrong, ErrGuessing}[min(i/20, 1)], 1, fmt.Sprintf("198.51.100.%d", i), "user", "guess")
	}
	for _, from := range []string{home, "::ffff:" + home, "2001:db8::ffff"} {
		h.gets(nil, 2, from, "user", right)
	}
	for _, from := range []string{elsewhere, "192.0.2.2", "2001:db8:0:1::1"} {
		h.gets(ErrGuessing, 1, from, "user", right)
	}
	h.gets(ErrWrong, 1, home, "user2", "guess") // known for one user, and not for another

	// Strangers are back within a minute after the last guess, and the network is forgotten between thirty and 31 days
	// after the last login.
	h.clock.Advance(time.Minute)
	h.gets(nil, 1, elsewhere, "user", right)
	h.clock.Advance(noteEvery - time.Minute - 1)
	h.gets(nil, 1, home, "user", right) // not noted, as the first time was less than a day ago
	h.clock.Advance(KnownFor)
	h.gets(ErrWrong, 20, "203.0.113.1", "user", "guess")
	h.gets(nil, 1, home, "user", right) // which notes it again
	h.gets(nil, 1, elsewhere, "user", right)
	h.clock.Advance(KnownFor + noteEvery)
	h.gets(ErrWrong, 20, "203.0.113.1", "user", "guess")
	h.gets(ErrGuessing, 1, home, "user", right)
}

// One host of a network guesses. All others of it who were here before log in, and only strangers have to wait.
func TestNeighbours(t *testing.T) {
	h := newHouse(t)
	for i := range 20 {
		h.gets(nil, 1, home, fmt.Sprint("user", i), right)
	}
	h.open()
	for i := range 200 {
		h.gets([]error{ErrWrong, ErrGuessing}[min(i/20, 1)], 1, home, fmt.Sprint("nobody", i), "guess")
	}
	for i := range 20 {
		h.gets(nil, 1, home, fmt.Sprint("user", i), right)
	}
	h.gets(ErrGuessing, 1, home, "user20", right)
	h.gets(nil, 1, elsewhere, "user20", right)
}

// A known network has a bound of its own for each user: one guess more is not verified, there, for that user.
func TestOwnBound(t *testing.T) {
	h := newHouse(t)
	for _, user := range []string{"user1", "user2"} {
		h.gets(nil, 1, home, user, right)
		h.gets(nil, 1, elsewhere, user, right)
	}
	h.gets(ErrWrong, 20, home, "user1", "guess")
	before := h.Verifier.Stats().Wrong
	h.gets(ErrGuessing, 1, home, "user1", "guess")
	h.gets(ErrGuessing, 1, home, "user1", right)
	if h.Verifier.Stats().Wrong != before {
		t.Error("it was verified")
	}
	h.gets(nil, 1, elsewhere, "user1", right)
	h.gets(nil, 1, home, "user2", right)
	h.clock.Advance(30 * time.Second)
	h.gets(nil, 3, home, "user1", right)
}

// Whoever guesses in a network learns from no answer who has logged in from there.
func TestKnownAnswersAsStranger(t *testing.T) {
	for _, others := range []int{0, 5, 20} {
		var said [3][]error
		for i, name := range []string{"nobody", "user", "user"} {
			h := newHouse(t)
			if i == 2 {
				h.gets(nil, 1, home, name, right)
			}
			for k := range others {
				h.gets(ErrWrong, 1, home, fmt.Sprint("x", k), "guess")
			}
			for range 30 {
				said[i] = append(said[i], h.try(home, name, "guess"))
			}
		}
		if !slices.Equal(said[0], said[1]) || !slices.Equal(said[1], said[2]) || said[0][29] != ErrGuessing {
			t.Errorf("after %d: %v", others, said)
		}
	}
}

// What is noted of a user is bounded: one network more pushes out one that was used once, and not the one of every day.
// Each is written once a day.
func TestNetworksOfAUser(t *testing.T) {
	h := newHouse(t)
	for range 3 {
		h.gets(nil, 50, home, "user", right)
		h.clock.Advance(noteEvery)
	}
	if h.writes != 3 {
		t.Errorf("%d writes", h.writes)
	}
	at := func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }
	for i := range MaxNetworks {
		h.clock.Advance(time.Minute)
		h.gets(nil, 1, at(i), "user", right)
	}
	h.gets(ErrWrong, 20, elsewhere, "user", "guess")
	h.gets(nil, 1, home, "user", right)
	h.gets(nil, 1, at(1), "user", right)
	h.gets(ErrGuessing, 1, at(0), "user", right)
}

// A store that fails makes networks unknown, and keeps nobody out.
func TestStoreFails(t *testing.T) {
	h := newHouse(t)
	h.gets(nil, 1, home, "user", right)
	h.store.Close()
	h.gets(nil, 1, home, "user", right)
	if len(h.failed) != 2 || !errors.Is(h.failed[0], store.ErrClosed) {
		t.Errorf("%v", h.failed)
	}
	h.gets(ErrWrong, 20, elsewhere, "user", "guess")
	h.gets(ErrGuessing, 1, home, "user", right)
}

// However many strangers wait to be verified, somebody who is known goes first; and of those who are known, one with
// wrong passwords of late goes behind the others.
func TestKnownGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verifier, let, at, _ := held(Options{Workers: 1, Waiting: 3})
		d, own, stored := &Door{Verifier: verifier}, evenly(t, 20), cheap(t, right)
		var order []string
		try := func(name string, known bool) error {
			a := &Attempt{Name: name, Password: right, Stored: stored,
				Event: func() weir.Event { return weir.Event{Time: start, Account: name} }}
			if known {
				a.Own = &Limit{own, name, name}
			}
			err := d.LogIn(t.Context(), a)
			if err == nil {
				order = append(order, name)
			}
			return err
		}
		for i := range 4 {
			go try(fmt.Sprint("stranger", i), false)
			synctest.Wait()
		}
		if err := try("stranger4", false); !errors.Is(err, ErrBusy) || at.Load() != 1 {
			t.Errorf("one more: %v", err)
		}
		if err := d.Guard.Charge(t.Context(), []Limit{{own, "", "guessed"}}, weir.Event{Time: start}); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"guessed", "known"} {
			go try(name, true)
			synctest.Wait()
		}
		for range 6 {
			let <- struct{}{}
			synctest.Wait()
		}
		if want := []string{"stranger0", "known", "guessed", "stranger1", "stranger2", "stranger3"}; !slices.Equal(order,
			want) {
			t.Errorf("%v", order)
		}
	})
}

// Another server is asked in the same order, and a name that nobody can have is wrong without being verified.
func TestAskedElsewhere(t *testing.T) {
	h := newHouse(t)
	var ranks []turns.Rank
	a := &Attempt{Name: "user", Password: "x", Stored: "elsewhere", Source: netip.MustParseAddr(home),
		Event: func() weir.Event { return weir.Event{Time: h.clock.Now(), Account: "user"} }}
	answer := error(nil)
	a.Ask = func(_ context.Context, r turns.Rank) error { ranks = append(ranks, r); return answer }
	for _, answer = range []error{nil, nil, ErrWrong, ErrBusy} {
		if err := h.LogIn(t.Context(), a); err != answer {
			t.Errorf("%v, want %v", err, answer)
		}
	}
	if want := []turns.Rank{turns.Last, turns.First, turns.First, turns.Second}; !slices.Equal(ranks, want) {
		t.Errorf("%v", ranks)
	}
	a.Name, a.Limits = "", []Limit{{h.networks, "network", "network"}}
	for i := range 21 {
		if want := []error{ErrWrong, ErrGuessing}[i/20]; h.LogIn(t.Context(), a) != want {
			t.Errorf("attempt %d is not %v", i, want)
		}
	}
	if len(ranks) != 4 || h.Verifier.Stats().Wrong != 0 {
		t.Error("it was verified")
	}
}
