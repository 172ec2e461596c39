// Package outlet keeps a slow log from blocking its writers. If the reader of the log stops, or its disk is slow or
// full, lines wait in a bounded buffer. Lines that do not fit are left out and counted.
//
// Most callers want New, Outlet.Write and Outlet.Close. An Outlet is safe for concurrent use.
package outlet

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// An Outlet hands lines on to a writer, in a goroutine of its own.
type Outlet struct {
	to    io.Writer
	bound int
	wake  chan struct{} // holds one: there is something to do
	end   chan struct{} // closed when nothing more is taken
	done  chan struct{} // closed when nothing more is written

	// Lines are gathered until there are enough bytes, or for so long. Zero: they are written at once.
	enough int
	every  time.Duration
	timer  *time.Timer

	mu      sync.Mutex
	waiting []byte
	since   time.Time // when the write under way began; zero where there is none
	err     error     // why the write under way has failed so far
	missing int64     // lines left out since missed was last called
	closed  bool
	dropped func(lines int64)
	missed  func(lines int64)
}

// New returns an outlet that keeps up to bound bytes.
func New(to io.Writer, bound int) *Outlet {
	o := &Outlet{to: to, bound: bound, wake: make(chan struct{}, 1), end: make(chan struct{}),
		done: make(chan struct{})}
	go o.run()
	return o
}

// NewGathering is New for many lines: they are written together, as soon as there are enough bytes of them, and after a
// time at the latest.
func NewGathering(to io.Writer, bound, enough int, every time.Duration) *Outlet {
	o := &Outlet{to: to, bound: bound, wake: make(chan struct{}, 1), end: make(chan struct{}),
		done: make(chan struct{}), enough: enough, every: every}
	o.timer = time.AfterFunc(every, o.rouse)
	go o.run()
	return o
}

// Tell sets two functions, which may be nil. dropped is called at once with the number of lines that are left out, and
// must not write to the outlet. missed is called with their number when lines are taken again.
func (o *Outlet) Tell(dropped func(lines int64), missed func(lines int64)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped, o.missed = dropped, missed
}

// Write takes a line, or leaves it out. It never waits and never fails, since an error could only be logged.
func (o *Outlet) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.waiting)+len(line) > o.bound {
		o.leaveOut(1)
		return len(line), nil
	}
	first := len(o.waiting) == 0
	o.waiting = append(o.waiting, line...)
	switch {
	case o.timer == nil || len(o.waiting) >= o.enough:
		o.rouse()
	case first:
		o.timer.Reset(o.every)
	}
	return len(line), nil
}

// leaveOut counts lines. o.mu is held.
func (o *Outlet) leaveOut(lines int64) {
	o.missing += lines
	if o.dropped != nil {
		o.dropped(lines)
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
		o.write(batch)
		o.mu.Lock()
		o.since, o.err = time.Time{}, nil
		if o.closed {
			o.rouse()
		}
		o.mu.Unlock()
	}
}

// again is how long after a write that failed the rest is tried again.
const again = time.Second

// write writes a batch, however often that takes: a disk may have room again. It gives up when the outlet is closed.
func (o *Outlet) write(batch []byte) {
	for {
		n, err := o.to.Write(batch)
		batch = batch[min(max(n, 0), len(batch)):]
		if err == nil || len(batch) == 0 {
			return
		}
		o.mu.Lock()
		o.err = err
		if o.closed {
			o.leaveOut(max(1, int64(bytes.Count(batch, []byte("\n")))))
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		select {
		case <-o.end:
		case <-time.After(again):
		}
	}
}

// Failing returns why the write under way fails, if it does.
func (o *Outlet) Failing() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
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
	if !o.closed {
		close(o.end)
	}
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.rouse()
	o.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
}
