// Package loglimit keeps a flood of one and the same line from filling the disk.
package loglimit

import (
	"sync/atomic"
	"time"
)

// Every is how long a line stays out of the log after it was written.
const Every = 10 * time.Second

// A Line goes into the log at once and then every so often. The zero value is ready, and several goroutines may share
// it.
type Line struct {
	next   atomic.Int64 // when it may be logged again
	hidden atomic.Int64
}

// Now reports whether the line may be logged, and how many times it was left out since the last one. at is the time
// since any moment that stays the same, so that a clock that is set does not matter.
func (l *Line) Now(at time.Duration) (hidden int64, ok bool) {
	next := l.next.Load()
	if int64(at) < next || !l.next.CompareAndSwap(next, int64(at+Every)) {
		l.hidden.Add(1)
		return 0, false
	}
	return l.hidden.Swap(0), true
}
