package grpcserve

import "sync/atomic"

// keptWorkers is how many goroutines are kept for calls that may wait: a new one for each call would have to grow its
// stack every time. Where all are busy, more are made; there are never more than calls under way.
const keptWorkers = 64

// workers answer calls that may wait.
type workers struct {
	jobs chan *stream
	done <-chan struct{}
	idle atomic.Int64
}

// do has a worker answer a call. It does not wait.
func (w *workers) do(s *stream) {
	select {
	case w.jobs <- s:
	default:
		go w.run(s)
	}
}

func (w *workers) run(s *stream) {
	for {
		s.conn.work(s)
		if w.idle.Add(1) > keptWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case s = <-w.jobs:
			w.idle.Add(-1)
		case <-w.done:
			w.idle.Add(-1)
			return
		}
	}
}
