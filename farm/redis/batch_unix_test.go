//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// scripts is how many scripts the engine has run.
func (s *server) scripts() int {
	s.t.Helper()
	line := field(s.do("INFO commandstats"), "cmdstat_evalsha")
	calls, _, _ := strings.Cut(strings.TrimPrefix(line, "calls="), ",")
	n, err := strconv.Atoi(calls)
	if err != nil {
		s.t.Fatalf("%q: %v", line, err)
	}
	return n
}

// TestBatch: calls that wait for the engine are answered together, each with what is its own. One that is wrong does
// not spoil the others, and those that were given up before they were sent are not made.
func TestBatch(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	p := s.openPatient("weir")
	(&client{t: t, pot: p, run: "a"}).take(0, 1)
	before := s.scripts()

	s.pause()
	const calls, wrong, given = 3 * maxBatch, 7, 5
	var all sync.WaitGroup
	quit, giveUp := context.WithCancel(t.Context())
	take := func(ctx context.Context, i int, key, mark string) (farm.Reply, error) {
		w := day(1000)
		w.Need, w.Mark = int64(i+1), mark
		return p.Take(ctx, farm.Ask{Key: key, Run: "a", Seq: uint64(i + 1), Wants: []farm.Want{w}})
	}
	first := 0
	for script := range maxScripts { // so that the others wait
		for range script*manyWait + 1 {
			i := first
			first++
			all.Go(func() {
				if r, err := take(t.Context(), i, fmt.Sprint("first ", i), ""); err != nil || !r.Granted {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		needs.Wait(t, "they are under way", func() bool { return p.lanes[0].under() == script+1 && p.lanes[0].queued() == 0 })
	}
	for i := range given {
		all.Go(func() {
			if _, err := take(quit, i, fmt.Sprint("given up ", i), ""); !errors.Is(err, context.Canceled) {
				t.Errorf("it is given up: %v", err)
			}
		})
	}
	needs.Wait(t, "they wait", func() bool { return p.lanes[0].queued() == given })
	giveUp()
	for i := range calls {
		all.Go(func() {
			if i == wrong {
				if _, err := take(t.Context(), i, "wrong", "no mark"); !errors.Is(err, farm.ErrAsk) {
					t.Errorf("a mark that is none: %v", err)
				}
				return
			}
			r, err := take(t.Context(), i, fmt.Sprint("key ", i), "")
			if err != nil || !r.Granted || r.Grants[0].Total != int64(i+1) {
				t.Errorf("call %d: %+v, %v", i, r, err)
			}
		})
	}
	needs.Wait(t, "all wait", func() bool { return p.lanes[0].queued() == given+calls-1 })
	s.resume()
	all.Wait()
	if n := s.scripts() - before; n > maxScripts+calls/maxBatch+1 {
		t.Errorf("%d scripts for %d calls", n, calls)
	}
	for i := range given {
		if r, err := take(t.Context(), 8, fmt.Sprint("given up ", i), ""); err != nil || r.Grants[0].Total != 9 {
			t.Errorf("it was made though it was given up: %+v, %v", r, err)
		}
		if n := p.calls.Load(); n != 0 { // who has an answer is not counted any more
			t.Errorf("%d calls are without an answer", n)
		}
	}
}

func (l *lane) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

func (l *lane) under() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.scripts
}
