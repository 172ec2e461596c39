// Package outlet keeps a slow log from blocking its writers. If the reader of the log stops, or its disk is slow, lines
// wait in a bounded buffer. Lines that do not fit are left out and counted.
//
// Most callers want New, Outlet.Write and Outlet.Close. An Outlet is safe for concurrent use.
package outlet

import (
	"io"
	"sync"
	"time"
)

// An Outlet hands lines on to a writer, in a goroutine of its own.
type Outlet struct {
	to    io.Writer
	bound int
	wake  chan struct{} // holds one: there is something to do
	done  chan struct{}

	mu      sync.Mutex
	waiting []byte
	since   time.Time // when the write under way began; zero where there is none
	missing int64     // lines left out since missed was last called
	closed  bool
	dropped func()
	missed  func(lines int64)
}

// New returns an outlet that keeps up to bound bytes.
func New(to io.Writer, bound int) *Outlet {
	o := &Outlet{to: to, bound: bound, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.run()
	return o
}

// Tell sets two functions, which may be nil. dropped is called at once for each line that is left out, and must not
// write to the outlet. missed is called with their number when lines are taken again.
func (o *Outlet) Tell(dropped func(), missed func(lines int64)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped, o.missed = dropped, missed
}

// Write takes a line, or leaves it out. It never waits and never fails, since an error could only be logged.
func (o *Outlet) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.waiting)+len(line) > o.bound {
		o.leaveOut()
		return len(line), nil
	}
	o.waiting = append(o.waiting, line...)
	o.rouse()
	return len(line), nil
}

// leaveOut counts a line. o.mu is held.
func (o *Outlet) leaveOut() {
	o.missing++
	if o.dropped != nil {
		o.dropped()
	}
}

func (o *Outlet) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *Outlet) run() {
	defer close(o.done)
	var spare []byte
	for {
		<-o.wake
		o.mu.Lock()
		batch, missing, missed := o.waiting, o.missing, o.missed
		o.waiting, o.missing, spare = spare[:0], 0, batch // it belongs to this goroutine now
		if len(batch) > 0 {
			o.since = time.Now()
		}
		last := o.closed && len(batch) == 0
		o.mu.Unlock()
		if last {
			return
		}
		if missing > 0 && missed != nil {
			missed(missing) // its line comes after this batch
		}
		if len(batch) == 0 {
			continue
		}
		_, err := o.to.Write(batch)
		o.mu.Lock()
		o.since = time.Time{}
		if err != nil {
			o.leaveOut()
		}
		if o.closed {
			o.rouse()
		}
		o.mu.Unlock()
	}
}

// Stuck reports how long the write under way has taken; zero if there is none.
func (o *Outlet) Stuck(now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return 0
	}
	return max(0, now.Sub(o.since))
}

// Close writes the lines that wait, for up to patience. Later lines are left out.
func (o *Outlet) Close(patience time.Duration) {
	o.mu.Lock()
	o.closed = true
	o.rouse()
	o.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
}
