package login

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/clock"
	"weir/internal/turns"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func TestVerify(t *testing.T) {
	d := New(Options{HashMemory: 8})
	stored, err := d.Hash("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(t.Context(), turns.Last, "ann", stored, "correct horse"); err != nil {
		t.Errorf("right: %v", err)
	}
	for _, wrong := range []string{"", "correct horse ", "Correct horse", string(make([]byte, MaxPassword+1))} {
		if err := d.Verify(t.Context(), turns.Last, "ann", stored, wrong); !errors.Is(err, ErrWrong) {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
	if err := d.Verify(t.Context(), turns.Last, string(make([]byte, MaxName+1)), stored, "correct horse"); !errors.Is(err,
		ErrWrong) {
		t.Errorf("long name: %v", err)
	}
	if s := d.Stats(); s != (Stats{Verified: 1, Wrong: 5, Kept: 1}) {
		t.Errorf("%+v", s)
	}
}

// counted returns a Verifier that counts how often it does the work.
func counted(o Options) (*Verifier, *atomic.Int64) {
	d, n := New(o), new(atomic.Int64)
	d.derive = func(password []byte, s *secret, length int) []byte {
		n.Add(1)
		return derive(password, s, length)
	}
	return d, n
}

// TestNobodyIsAsMuchWorkAsSomebody: an unknown user takes the work of one whose password the verifier has hashed,
// whatever that takes.
func TestNobodyIsAsMuchWorkAsSomebody(t *testing.T) {
	for _, memory := range []int{0, 8, 1024} {
		d := New(Options{HashMemory: memory})
		stored, err := d.Hash("correct horse")
		if err != nil {
			t.Fatal(err)
		}
		var did []secret
		d.derive = func(_ []byte, s *secret, length int) []byte {
			did = append(did, secret{memory: s.memory, passes: s.passes, lanes: s.lanes, hash: make([]byte, length)})
			return make([]byte, length) // even if the answer were the dummy's
		}
		for _, stored := range []string{"", stored} {
			if err := d.Verify(t.Context(), turns.Last, "ann", stored, "guess"); !errors.Is(err, ErrWrong) {
				t.Errorf("%d KiB, stored %q: %v", memory, stored, err)
			}
		}
		if len(did) != 2 || fmt.Sprint(did[0]) != fmt.Sprint(did[1]) {
			t.Errorf("%d KiB: did %v", memory, did)
		}
		if k := d.Stats().Kept; k != 0 {
			t.Errorf("%d are remembered", k)
		}
	}
}

func TestRightIsRememberedForAWhile(t *testing.T) {
	c := clock.NewFake(start)
	d, n := counted(Options{Clock: c, Remember: time.Minute})
	stored := cheap(t, "correct horse")
	verify := func(name, stored, password string, want error, work int64) {
		t.Helper()
		n.Store(0)
		if err := d.Verify(t.Context(), turns.Last, name, stored, password); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if n.Load() != work {
			t.Errorf("worked %d times, want %d", n.Load(), work)
		}
	}
	verify("ann", stored, "correct horse", nil, 1)
	verify("ann", stored, "correct horse", nil, 0)
	verify("ann", stored, "correct hors", ErrWrong, 1)
	verify("ann", stored, "correct hors", ErrWrong, 1) // what is wrong is not remembered
	verify("bob", stored, "correct horse", nil, 1)     // somebody else
	verify("ann", cheap(t, "battery staple"), "correct horse", ErrWrong, 1)
	verify("ann", "", "correct horse", ErrWrong, 1) // the user is gone
	verify("annc", stored, "orrect horse", ErrWrong, 1)
	c.Advance(time.Minute - 1)
	verify("ann", stored, "correct horse", nil, 0)
	c.Advance(1)
	verify("ann", stored, "correct horse", nil, 1)
	verify("ann", stored, "correct horse", nil, 0)
	c.Advance(-time.Hour) // set back
	verify("ann", stored, "correct horse", nil, 1)
	verify("ann", stored, "correct horse", nil, 0)

	// Asked about, and told by others, at no work.
	n.Store(0)
	for what, want := range map[[3]string]bool{
		{"ann", stored, "correct horse"}: true, {"ann", stored, "correct hors"}: false,
		{"ann", "", "correct horse"}: false, {"eve", "elsewhere", "sesame"}: false,
	} {
		if got := d.Remembered(what[0], what[1], what[2]); got != want {
			t.Errorf("%q is remembered: %v", what, got)
		}
	}
	long := strings.Repeat("x", MaxPassword+1)
	d.Remember("eve", "elsewhere", "sesame")
	d.Remember("eve", "elsewhere", long)
	d.Remember("eve", "", "sesame")
	if !d.Remembered("eve", "elsewhere", "sesame") || d.Remembered("eve", "elsewhere", long) ||
		d.Remembered("eve", "", "sesame") || n.Load() != 0 {
		t.Error("what others found is not remembered as it should be")
	}
	if c.Advance(time.Minute); d.Remembered("eve", "elsewhere", "sesame") ||
		d.Remembered("ann", stored, "correct horse") {
		t.Error("remembered for too long")
	}

	d, n = counted(Options{Clock: c, Remember: -1})
	verify("ann", stored, "correct horse", nil, 1)
	verify("ann", stored, "correct horse", nil, 1)
}

func TestMemoryIsBounded(t *testing.T) {
	const most = 8
	d, n := counted(Options{Clock: clock.NewFake(start), Remembered: most})
	stored := cheap(t, "correct horse")
	verify := func(i int) bool {
		t.Helper()
		before := n.Load()
		if err := d.Verify(t.Context(), turns.Last, fmt.Sprint("user", i), stored, "correct horse"); err != nil {
			t.Fatal(err)
		}
		return n.Load() == before
	}
	for i := range most {
		verify(i)
	}
	for i := range most {
		if !verify(i) {
			t.Errorf("user%d is forgotten", i)
		}
	}
	verify(most) // one more
	if d.Stats().Kept != most || !verify(1) || verify(0) {
		t.Error("one more pushes out the oldest, and nobody else")
	}
	for i := range 10 * most {
		verify(i % (most + 3))
		if k := d.Stats().Kept; k > most {
			t.Fatalf("%d are kept", k)
		}
	}
}

// held returns a Verifier whose work takes until it is let go, and counts who is at it.
func held(o Options) (d *Verifier, let chan struct{}, at, most *atomic.Int64) {
	d, let, at, most = New(o), make(chan struct{}), new(atomic.Int64), new(atomic.Int64)
	d.derive = func(_ []byte, s *secret, _ int) []byte {
		now := at.Add(1)
		defer at.Add(-1)
		for {
			m := most.Load()
			if now <= m || most.CompareAndSwap(m, now) {
				break
			}
		}
		<-let
		return s.hash
	}
	return d, let, at, most
}

func TestWorkersAndWaitingAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, waiting = 2, 3
		d, let, at, most := held(Options{Workers: workers, Waiting: waiting})
		stored := cheap(t, "correct horse")
		errs := make(chan error, 100)
		start := func(ctx context.Context, name string) {
			go func() { errs <- d.Verify(ctx, turns.Last, name, stored, "correct horse") }()
			synctest.Wait()
		}
		for i := range workers + waiting {
			start(t.Context(), fmt.Sprint("user", i))
		}
		if at.Load() != workers || d.Stats().Inside != workers+waiting || len(errs) != 0 {
			t.Fatalf("%d at work, %+v, %d are done", at.Load(), d.Stats(), len(errs))
		}
		start(t.Context(), "one more")
		if err := <-errs; !errors.Is(err, ErrBusy) || d.Stats().Busy != 1 {
			t.Errorf("one more: %v", err)
		}
		for range workers + waiting {
			let <- struct{}{}
			synctest.Wait()
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != workers || d.Stats().Inside != 0 || d.Stats().Verified != workers+waiting {
			t.Errorf("up to %d at work, %+v", most.Load(), d.Stats())
		}
	})
}

func TestWhoGivesUpFreesHisPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, let, _, _ := held(Options{Workers: 1, Waiting: 1})
		stored := cheap(t, "correct horse")
		done := make(chan error, 3)
		verify := func(ctx context.Context, name string) {
			go func() { done <- d.Verify(ctx, turns.Last, name, stored, "correct horse") }()
			synctest.Wait()
		}
		verify(t.Context(), "at work")
		ctx, cancel := context.WithCancel(t.Context())
		verify(ctx, "waits")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("gave up: %v", err)
		}
		verify(t.Context(), "takes the place")
		if len(done) != 0 || d.Stats().Inside != 2 {
			t.Fatalf("%+v", d.Stats())
		}
		let <- struct{}{}
		let <- struct{}{}
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
		verify(ctx, "too late")
		if err := <-done; !errors.Is(err, context.Canceled) || d.Stats().Inside != 0 {
			t.Errorf("gave up before: %v, %+v", err, d.Stats())
		}
	})
}

// A mail program opens several connections at once: the work is done once.
func TestSameLogInWaitsForTheFirst(t *testing.T) {
	d, n := counted(Options{Workers: 1})
	stored := cheap(t, "correct horse")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := d.Verify(t.Context(), turns.Last, "ann", stored, "correct horse"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n.Load() != 1 {
		t.Errorf("worked %d times", n.Load())
	}
}

func TestManyAtOnce(t *testing.T) {
	d := New(Options{Workers: 2, Waiting: 1000, Remembered: 4})
	stored := cheap(t, "correct horse")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				name := fmt.Sprint("user", (i+j)%10)
				if err := d.Verify(t.Context(), turns.Last, name, stored, "correct horse"); err != nil {
					t.Error(err)
				}
				if err := d.Verify(t.Context(), turns.Last, name, stored, "wrong"); !errors.Is(err, ErrWrong) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if s := d.Stats(); s.Inside != 0 || s.Kept > 4 || s.Verified+s.Remembered != 400 || s.Wrong != 400 {
		t.Errorf("%+v", s)
	}
}

func TestOptions(t *testing.T) {
	if n, cores := (Options{}).withDefaults().Workers, runtime.NumCPU(); n < 1 || 2*n > max(cores, 2) {
		t.Errorf("%d workers on %d processors: passwords take more than half of them", n, cores)
	}
	bad := Options{Workers: -1, Waiting: MaxWaiting + 1, Remember: MaxRemember + 1, Remembered: -5, HashMemory: 1 << 30}
	within := Options{Workers: 1, Waiting: MaxWaiting, Remember: MaxRemember, Remembered: 1, HashMemory: maxMemory,
		Clock: systemClock{}}
	if got := bad.withDefaults(); got != within {
		t.Errorf("%+v", got)
	}
	if d := New(bad); d.Verify(t.Context(), turns.Last, "ann", cheap(t, "correct horse"), "correct horse") != nil {
		t.Error("a verifier works whatever the options")
	}
}

func BenchmarkRemembered(b *testing.B) {
	d := New(Options{})
	stored, err := Hash("correct horse")
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	if err := d.Verify(ctx, turns.Last, "ann", stored, "correct horse"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = d.Verify(ctx, turns.Last, "ann", stored, "correct horse")
	}
}

func BenchmarkVerified(b *testing.B) {
	d := New(Options{Remember: -1})
	stored, err := Hash("correct horse")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Verify(b.Context(), turns.Last, "ann", stored, "correct horse"); err != nil {
			b.Fatal(err)
		}
	}
}
