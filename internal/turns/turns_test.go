package turns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Those who wait work in the order of their ranks, and of each rank in the order in which they came. Every fourth turn
// is for the last rank.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(1, 10)
		if err := turns.Take(t.Context(), Last); err != nil {
			t.Fatal(err)
		}
		var order []string
		for i := range 4 {
			for _, r := range []Rank{Last, Second, First} {
				go func() {
					if err := turns.Take(t.Context(), r); err != nil {
						t.Error(err)
					}
					order = append(order, fmt.Sprintf("%d%d", r, i))
					turns.Done()
				}()
				synctest.Wait()
			}
		}
		if n := turns.Inside(); n != 13 {
			t.Errorf("%d are inside", n)
		}
		turns.Done()
		synctest.Wait()
		if want := []string{"00", "01", "02", "20", "03", "10", "11", "21", "12", "13", "22", "23"}; !slices.Equal(order,
			want) || turns.Inside() != 0 {
			t.Errorf("%v, want %v", order, want)
		}
	})
}

// Each line has a bound, and a full one does not fill the others.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 3
		turns := New(2, waiting)
		ctx, cancel := context.WithCancel(t.Context())
		var gone atomic.Int64
		wait := func(n int, r Rank) {
			for range n {
				go func() {
					if err := turns.Take(ctx, r); errors.Is(err, context.Canceled) {
						gone.Add(1)
					}
				}()
			}
			synctest.Wait()
		}
		wait(2, Last) // they work
		for _, r := range []Rank{Last, Second, First} {
			most := waiting
			if r != Last {
				most *= knownFactor
			}
			wait(most, r)
			if err := turns.Take(ctx, r); !errors.Is(err, ErrBusy) {
				t.Errorf("one more of rank %d: %v", r, err)
			}
		}
		cancel()
		synctest.Wait()
		if n := turns.Inside(); n != 2 || gone.Load() != waiting*(1+2*knownFactor) {
			t.Errorf("%d are inside, %d gave up", n, gone.Load())
		}
		if err := turns.Take(ctx, First); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		turns.Done()
		if err := turns.Take(t.Context(), Last); err != nil || turns.Inside() != 2 {
			t.Error(err)
		}
	})
}

// However many come, go and give up, no more than a few work at once, and no turn is lost.
func TestManyAtOnce(t *testing.T) {
	turns := New(3, 1000)
	var at, most atomic.Int64
	var all sync.WaitGroup
	for i := range 600 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				go cancel()
			}
			if turns.Take(ctx, Rank(i%int(ranks))) != nil {
				return
			}
			if n := at.Add(1); n > most.Load() {
				most.Store(n)
			}
			at.Add(-1)
			turns.Done()
		})
	}
	all.Wait()
	if turns.Inside() != 0 || most.Load() > 3 {
		t.Errorf("%d are inside, up to %d worked", turns.Inside(), most.Load())
	}
}
