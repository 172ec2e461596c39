//go:build unix

package redis

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// TestStandstill: who gives up has an error at once, and the call may be executed all the same. It does no harm.
func TestStandstill(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	c := &client{t: t, pot: s.openPatient("weir"), run: "a"}
	c.take(0, 10)
	lane := &c.pot.lanes[0]
	needs.Wait(t, "nothing is under way", func() bool { return lane.under() == 0 })
	s.pause()
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		c.seq++
		w := day(100)
		w.Mark, w.Used = c.last.Mark, 10
		_, err := c.pot.Take(ctx, farm.Ask{Key: "key", Run: "a", Seq: c.seq, Wants: []farm.Want{w}})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("it stands still: %v", err)
		}
	}
	needs.Wait(t, "a script is under way, or all were given up before", func() bool {
		return lane.under() == 0 || int(c.pot.calls.Load()) > lane.queued()
	})
	// The calls that were given up are bounded, and the next one fails at once.
	var wg sync.WaitGroup
	given, cancel := context.WithCancel(t.Context())
	seq := uint64(0)
	call := func(n int) {
		for range n {
			seq++
			ask := farm.Ask{Key: "other", Run: "a", Seq: seq, Wants: []farm.Want{day(1)}}
			wg.Go(func() {
				if _, err := c.pot.Take(given, ask); !errors.Is(err, context.Canceled) {
					t.Errorf("a call that is given up: %v", err)
				}
			})
		}
	}
	for lane.under() < maxScripts { // each script begins with the call that is one too many to wait for those before it
		scripts := lane.under()
		call(manyWait*scripts + 1 - lane.queued())
		needs.Wait(t, "one script more is under way", func() bool { return lane.under() == scripts+1 && lane.queued() == 0 })
	}
	call(int(maxCalls - c.pot.calls.Load()))
	needs.Wait(t, "all wait", func() bool { return c.pot.calls.Load() == maxCalls })
	if _, err := c.try(10, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("one call more: %v", err)
	}
	cancel()
	wg.Wait()
	if _, err := c.try(10, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("they have been given up, and not answered: %v", err)
	}
	s.resume()
	needs.Wait(t, "all are answered", func() bool { return c.pot.calls.Load() == 0 })
	if r := c.take(10, 990); !r.Granted || c.last.Total != 1000 {
		t.Errorf("%+v", r)
	}
}

func (s *server) pause()  { s.signal(syscall.SIGSTOP) }
func (s *server) resume() { s.signal(syscall.SIGCONT) }

func (s *server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
