package logs

import (
	"sync/atomic"
	"time"
)

// Every is how long a line stays out of the log after it was written.
const Every = 10 * time.Second

// A Line is logged at once and then every 10 seconds at most. The zero value is ready. Goroutines may share it.
type Line struct {
	next   atomic.Int64 // when it may be logged again
	hidden atomic.Int64
}

// Now reports whether the line may be logged, and how many times it was left out since it was last logged. at is the
// time since a fixed moment, so that setting the clock does not matter.
func (l *Line) Now(at time.Duration) (hidden int64, ok bool) {
	next := l.next.Load()
	if int64(at) < next || !l.next.CompareAndSwap(next, int64(at+Every)) {
		l.hidden.Add(1)
		return 0, false
	}
	return l.hidden.Swap(0), true
}
