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
)

// TestStandstill: who gives up has an error at once, and the call may be executed all the same. It does no harm.
func TestStandstill(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	c := &client{t: t, pot: s.open("weir"), run: "a"}
	c.take(0, 10)
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
	// The calls that were given up are bounded, and the next one fails at once.
	var wg sync.WaitGroup
	given, cancel := context.WithCancel(t.Context())
	until(t, "all wait", func() bool {
		for i := uint64(1); c.pot.calls.Load() < maxCalls; i++ {
			wg.Go(func() {
				w := day(1)
				_, err := c.pot.Take(given, farm.Ask{Key: "other", Run: "a", Seq: i, Wants: []farm.Want{w}})
				if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrBusy) {
					t.Errorf("a call that is given up: %v", err)
				}
			})
		}
		return c.pot.lanes[0].under() == maxScripts
	})
	if _, err := c.try(10, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("one call more: %v", err)
	}
	cancel()
	wg.Wait()
	if _, err := c.try(10, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("they have been given up, and not answered: %v", err)
	}
	s.resume()
	until(t, "all are answered", func() bool { return c.pot.calls.Load() == 0 })
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
