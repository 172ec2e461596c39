package app

import (
	"log/slog"
	"sync"
	"time"

	"weir/internal/clock"
)

// failurePause is how long a failing throttle is not logged again: the metric counts every failure.
const failurePause = 10 * time.Second

// failures logs throttles that fail, without letting one that fails at every event fill the disk.
type failures struct {
	clock clock.Clock
	log   *slog.Logger

	mu   sync.Mutex
	last map[string]*failure // by throttle
}

type failure struct {
	logged time.Time
	since  int
}

// note is told of every failure.
func (f *failures) note(throttle string, err error) {
	now := f.clock.Now()
	f.mu.Lock()
	one := f.last[throttle]
	if one == nil {
		one = &failure{}
		f.last[throttle] = one
	}
	one.since++
	if !one.logged.IsZero() && now.Sub(one.logged) < failurePause {
		f.mu.Unlock()
		return
	}
	since := one.since
	one.logged, one.since = now, 0
	f.mu.Unlock()
	f.log.Error("throttle failed", "throttle", throttle, "failures", since, "err", err)
}
