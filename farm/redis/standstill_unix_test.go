//go:build unix

package redis

import (
	"context"
	"errors"
	"os"
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
	s.resume()
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
