package login

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/throttle/quota"
)

// wrongs is a limit on wrong passwords in a day.
func wrongs(t *testing.T, most int64) *quota.Quota {
	t.Helper()
	q,
		err := quota.New(quota.Options{Policies: []quota.Policy{{Name: "wrong", Limit: quota.Count(most),
		Period: weir.Period{Length: 24 * time.Hour}}}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A guarded test has a guard with one limit for a network, and one for each user.
type guarded struct {
	t       *testing.T
	guard   Guard
	network *quota.Quota
	users   *quota.Quota // nil for no limit
	known   sync.Map     // users who are remembered
}

func (g *guarded) take(ctx context.Context, user string) (*Guess, error) {
	limits := []Limit{{g.network, "network", "everybody"}}
	if g.users != nil {
		limits = append(limits, Limit{g.users, "user " + user, ""})
	}
	return g.guard.Take(ctx, limits, func() weir.Event { return weir.Event{Time: start, Account: user} }, func() bool {
		_, known := g.known.Load(user)
		return known
	})
}

// left is how many more wrong passwords are looked at.
func (g *guarded) left() (n int) {
	g.t.Helper()
	for ; ; n++ {
		guess, err := g.take(g.t.Context(), "whoever")
		if errors.Is(err, ErrGuessing) {
			return n
		}
		if err != nil {
			g.t.Fatal(err)
		}
		guess.End(start, true)
	}
}

func (g *guarded) empty() {
	g.t.Helper()
	if n := len(g.guard.lines); n != 0 {
		g.t.Errorf("%d lines are left", n)
	}
}

// A wrong password that was verified elsewhere is charged to all limits, or to none.
func TestChargedToAllOrNone(t *testing.T) {
	var g Guard
	limits := []Limit{{wrongs(t, 2), "network", "network"}, {wrongs(t, 1), "user", "user"}}
	charge := func(limits []Limit, want error) {
		t.Helper()
		if err := g.Charge(t.Context(), limits, weir.Event{Time: start}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	charge(limits, nil)
	charge(limits, ErrGuessing)
	charge(limits, ErrGuessing)
	charge(limits[:1], nil)
	charge(limits[:1], ErrGuessing)
}

// Wrong passwords that come at once are as many as those that come one after the other.
func TestGuessesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{t: t, network: wrongs(t, 20)}
		var verified, late atomic.Int64
		answer := make(chan struct{})
		var all sync.WaitGroup
		for i := range 90 {
			all.Go(func() {
				guess, err := g.take(t.Context(), fmt.Sprint("user", i))
				if errors.Is(err, ErrGuessing) {
					late.Add(1)
					return
				}
				if err != nil {
					t.Error(err)
				}
				verified.Add(1)
				<-answer
				guess.End(start, true)
			})
		}
		synctest.Wait()
		if v, l := verified.Load(), late.Load(); v != 20 || l != 0 {
			t.Errorf("%d are verified, %d were turned away", v, l)
		}
		close(answer)
		all.Wait()
		if v, l := verified.Load(), late.Load(); v != 20 || l != 70 {
			t.Errorf("%d were verified, %d were turned away", v, l)
		}
		g.empty()
	})
}

// Many users of one network log in for the first time at once, with less left than there are of them. All get in, and
// nothing is charged.
func TestManyRightOnesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{t: t, network: wrongs(t, 3), users: wrongs(t, 2)}
		for range 2 {
			guess, err := g.take(t.Context(), "eve")
			if err != nil {
				t.Fatal(err)
			}
			guess.End(start, true)
		}
		var inside, most atomic.Int64
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				guess, err := g.take(t.Context(), fmt.Sprint("user", i))
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				time.Sleep(time.Second) // of the bubble: it is being verified
				inside.Add(-1)
				guess.End(start, false)
			})
		}
		all.Wait()
		if most.Load() != 1 {
			t.Errorf("%d at once, with one unit left", most.Load())
		}
		g.users = nil
		if n := g.left(); n != 1 {
			t.Errorf("%d are left", n)
		}
		g.empty()
	})
}

// A mail program opens ten connections: the first one that is verified lets the others in, also where one guess is
// left.
func TestTenFirstLogIns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{t: t, network: wrongs(t, 20), users: wrongs(t, 1)}
		var all sync.WaitGroup
		var verified atomic.Int64
		for range 10 {
			all.Go(func() {
				guess, err := g.take(t.Context(), "ann")
				if err != nil {
					t.Error(err)
				}
				if guess != nil {
					verified.Add(1)
					time.Sleep(time.Second)
					g.known.Store("ann", true)
				}
				guess.End(start, false)
			})
		}
		all.Wait()
		if verified.Load() != 1 {
			t.Errorf("%d were verified", verified.Load())
		}
		g.empty()
	})
}

// A guess that finds nothing left for its user holds nothing of its network meanwhile, and whoever is called for
// nothing calls the next.
func TestAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{t: t, network: wrongs(t, 2), users: wrongs(t, 1)}
		ann, err := g.take(t.Context(), "ann") // one of the network, and all of ann
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan string, 10)
		begin := func(user string) {
			go func() {
				guess, err := g.take(t.Context(), user)
				results <- fmt.Sprint(user, " ", err)
				guess.End(start, true)
			}()
			synctest.Wait()
		}
		begin("ann") // waits for the other ann
		bob, err := g.take(t.Context(), "bob")
		if err != nil {
			t.Fatalf("the network has one left: %v", err)
		}
		begin("ann") // waits for the network
		begin("carl")
		if len(results) != 0 {
			t.Fatal(<-results)
		}
		bob.End(start, false) // calls the second ann, who finds nothing left for herself, and calls carl
		synctest.Wait()
		if got := <-results; got != "carl <nil>" {
			t.Error(got)
		}
		ann.End(start, true) // now nothing is left of the network: carl was wrong, too
		synctest.Wait()
		for range 2 {
			if got := <-results; got != "ann "+ErrGuessing.Error() {
				t.Error(got)
			}
		}
		g.empty()
	})
}

// broken is a throttle that cannot judge.
type broken struct{ weir.Throttle }

func (broken) Judge(context.Context, *weir.Event, *weir.Answer) error { return errBroken }

var errBroken = errors.New("broken")

// TestThrottleFails: nobody guesses while a limit cannot be asked, and nothing is taken of the others.
func TestThrottleFails(t *testing.T) {
	g := &guarded{t: t, network: wrongs(t, 1)}
	limits := []Limit{{g.network, "network", "everybody"}, {broken{}, "broken", ""}}
	guess, err := g.guard.Take(t.Context(), limits, func() weir.Event { return weir.Event{Time: start} },
		func() bool { return false })
	if guess != nil || !errors.Is(err, errBroken) {
		t.Errorf("%v, %v", guess, err)
	}
	if n := g.left(); n != 1 {
		t.Errorf("%d are left", n)
	}
	g.empty()
}

// The line is bounded, and whoever gives up makes room in it.
func TestLineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{t: t, network: wrongs(t, 1)}
		first, err := g.take(t.Context(), "first")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var in, gone atomic.Int64
		wait := func(ctx context.Context) {
			all.Go(func() {
				guess, err := g.take(ctx, "waits")
				switch {
				case err == nil:
					in.Add(1)
					guess.End(start, false)
				case errors.Is(err, context.Canceled):
					gone.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wait(ctx)
		for range MaxInLine - 1 {
			wait(t.Context())
		}
		synctest.Wait()
		if _, err := g.take(t.Context(), "one more"); !errors.Is(err, ErrBusy) {
			t.Errorf("one more: %v", err)
		}
		cancel()
		synctest.Wait()
		wait(t.Context())
		synctest.Wait()
		first.End(start, false)
		all.Wait()
		if in.Load() != MaxInLine || gone.Load() != 1 {
			t.Errorf("%d came in, %d gave up", in.Load(), gone.Load())
		}
		g.empty()
	})
}

// Whoever was called from the line and finds that another was faster stands in front again.
func TestCalledKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{t: t, network: wrongs(t, 2)}
		take := func(known func()) *Guess {
			guess, err := g.guard.Take(t.Context(), []Limit{{g.network, "network", ""}},
				func() weir.Event { return weir.Event{Time: start, Account: "all"} },
				func() bool { known(); return false })
			if err != nil {
				t.Error(err)
			}
			return guess
		}
		first, other := take(func() {}), take(func() {})
		var order []string
		var faster *Guess
		asked := 0
		go func() {
			guess := take(func() {
				if asked++; asked == 2 { // it was called, and somebody else is faster
					faster = take(func() {})
				}
			})
			order = append(order, "called")
			guess.End(start, false)
		}()
		synctest.Wait()
		go func() {
			guess := take(func() {})
			order = append(order, "behind")
			guess.End(start, false)
		}()
		synctest.Wait()
		first.End(start, false)
		synctest.Wait()
		faster.End(start, false)
		synctest.Wait()
		other.End(start, false)
		if fmt.Sprint(order) != "[called behind]" {
			t.Errorf("who got in: %v", order)
		}
		g.empty()
	})
}

// Whatever comes in whatever order, no more are wrong than may be, nobody who is right loses anything, and nobody is
// forgotten in a line.
func TestGuardWithManyAtOnce(t *testing.T) {
	g := &guarded{t: t, network: wrongs(t, 15), users: wrongs(t, 4)}
	var wrong, right, late, gone atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%10 == 0 {
				go cancel()
			}
			user := fmt.Sprint("user", i%8)
			guess, err := g.take(ctx, user)
			switch {
			case errors.Is(err, ErrGuessing):
				late.Add(1)
			case errors.Is(err, context.Canceled):
				gone.Add(1)
			case err != nil:
				t.Error(err)
			case guess == nil:
				right.Add(1)
			case rand.IntN(3) == 0:
				wrong.Add(1)
				guess.End(start, true)
			default:
				right.Add(1)
				if rand.IntN(20) == 0 {
					g.known.Store(user, true)
				}
				guess.End(start, false)
			}
		})
	}
	all.Wait()
	if n := wrong.Load() + right.Load() + late.Load() + gone.Load(); n != 200 || wrong.Load() > 15 {
		t.Errorf("%d ended, %d were wrong", n, wrong.Load())
	}
	g.users = nil
	if n := int64(g.left()); n != 15-wrong.Load() {
		t.Errorf("%d are left, and %d were wrong of 15", n, wrong.Load())
	}
	g.empty()
}
