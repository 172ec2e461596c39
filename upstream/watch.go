package upstream

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A watch finds exchanges that take longer than the grace, and wakes their goroutines. A deadline for each exchange
// would do the same, and cost every short one two timers.
type watch struct {
	mu      sync.Mutex
	conns   []*conn
	ticking atomic.Bool
}

// watched is the part of a connection that its watch looks at.
type watched struct {
	place int // in the watch's list, from 1; 0 when it is not there

	mu     sync.Mutex
	busy   bool // an exchange waits for its answer, and has not been woken
	began  time.Time
	reads  bool // only reads are woken: a write must not be
	nudged bool // it has been woken by a deadline in the past
}

// begin notes that an exchange begins.
func (w *watched) begin(now time.Time, reads bool) {
	w.mu.Lock()
	w.busy, w.began, w.reads = true, now, reads
	w.mu.Unlock()
}

// rest keeps the watch from waking the exchange. It reports whether that has happened, so that there is a deadline to
// be removed.
func (w *watched) rest() (nudged bool) {
	w.mu.Lock()
	nudged = w.nudged
	w.busy, w.nudged = false, false
	w.mu.Unlock()
	return nudged
}

// look wakes an exchange that is older than the grace. It reports whether there is one that is not.
func (c *conn) look(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.busy || now.Sub(c.began) < grace {
		return c.busy
	}
	c.busy, c.nudged = false, true
	if c.reads {
		_ = c.nc.SetReadDeadline(longAgo)
	} else {
		_ = c.nc.SetDeadline(longAgo)
	}
	return false
}

// longAgo ends reads and writes that are under way.
var longAgo = time.Unix(1, 0)

func (w *watch) add(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
	c.place = len(w.conns)
}

func (w *watch) remove(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.place == 0 {
		return
	}
	last := w.conns[len(w.conns)-1]
	w.conns[c.place-1], last.place = last, c.place
	w.conns = slices.Delete(w.conns, len(w.conns)-1, len(w.conns))
	c.place = 0
}

// start makes sure that there is somebody who looks.
func (w *watch) start() {
	if !w.ticking.Load() && w.ticking.CompareAndSwap(false, true) {
		time.AfterFunc(grace, w.tick)
	}
}

func (w *watch) tick() {
	w.ticking.Store(false) // whoever begins from here on sees it
	if w.look(time.Now()) {
		w.start()
	}
}

// look reports whether an exchange is under way that has not been woken.
func (w *watch) look(now time.Time) (busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		busy = c.look(now) || busy
	}
	return busy
}
