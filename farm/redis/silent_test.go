package redis

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"weir/farm"
)

// TestSilent: where the engine was, somebody takes connections and says nothing. Who asks gives up in time.
func TestSilent(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	c := &client{t: t, pot: s.open("weir"), run: "a"}
	c.take(0, 1)
	s.kill()
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, p := range []*Pot{c.pot, s.open("other")} {
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, err := p.Take(ctx, farm.Ask{Key: "key", Run: "a", Seq: 9, Wants: []farm.Want{day(1)}})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrUnreachable) {
				t.Errorf("nobody has answered: %v", err)
			}
		}
	}
}
