package logs

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// A Buffer hands lines on to a writer, in a goroutine of its own.
type Buffer struct {
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

// NewBuffer returns a buffer that keeps up to bound bytes.
func NewBuffer(to io.Writer, bound int) *Buffer { return NewGathering(to, bound, 0, 0) }

// NewGathering is NewBuffer for many lines: they are written together, as soon as there are enough bytes of them, and
// after a time at the latest.
func NewGathering(to io.Writer, bound, enough int, every time.Duration) *Buffer {
	b := &Buffer{to: to, bound: bound, wake: make(chan struct{}, 1), end: make(chan struct{}),
		done: make(chan struct{}), enough: enough, every: every}
	if every > 0 {
		b.timer = time.AfterFunc(every, b.rouse)
	}
	go b.run()
	return b
}

// Tell sets two functions, which may be nil. dropped is called at once with the number of lines that are left out, and
// must not write to the buffer. missed is called with their number when lines are taken again.
func (b *Buffer) Tell(dropped func(lines int64), missed func(lines int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped, b.missed = dropped, missed
}

// Write takes a line, or leaves it out. It never waits and never fails, since an error could only be logged.
func (b *Buffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.waiting)+len(line) > b.bound {
		b.leaveOut(1)
		return len(line), nil
	}
	first := len(b.waiting) == 0
	b.waiting = append(b.waiting, line...)
	switch {
	case b.timer == nil || len(b.waiting) >= b.enough:
		b.rouse()
	case first:
		b.timer.Reset(b.every)
	}
	return len(line), nil
}

// leaveOut counts lines. b.mu is held.
func (b *Buffer) leaveOut(lines int64) {
	b.missing += lines
	if b.dropped != nil {
		b.dropped(lines)
	}
}

func (b *Buffer) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Buffer) run() {
	defer close(b.done)
	var spare []byte
	for {
		<-b.wake
		b.mu.Lock()
		batch, missing, missed := b.waiting, b.missing, b.missed
		b.waiting, b.missing, spare = spare[:0], 0, batch // it belongs to this goroutine now
		if len(batch) > 0 {
			b.since = time.Now()
		}
		last := b.closed && len(batch) == 0
		b.mu.Unlock()
		if last {
			return
		}
		if missing > 0 && missed != nil {
			missed(missing) // its line comes after this batch
		}
		if len(batch) == 0 {
			continue
		}
		b.write(batch)
		b.mu.Lock()
		b.since, b.err = time.Time{}, nil
		if b.closed {
			b.rouse()
		}
		b.mu.Unlock()
	}
}

// again is how long after a write that failed the rest is tried again.
const again = time.Second

// write writes a batch, however often that takes: a disk may have room again. It gives up when the buffer is closed.
func (b *Buffer) write(batch []byte) {
	for {
		n, err := b.to.Write(batch)
		batch = batch[min(max(n, 0), len(batch)):]
		if err == nil || len(batch) == 0 {
			return
		}
		b.mu.Lock()
		b.err = err
		if b.closed {
			b.leaveOut(max(1, int64(bytes.Count(batch, []byte("\n")))))
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		select {
		case <-b.end:
		case <-time.After(again):
		}
	}
}

// Failing returns why the write under way fails, if it does.
func (b *Buffer) Failing() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Stuck reports how long the write under way has taken; zero if there is none.
func (b *Buffer) Stuck(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return 0
	}
	return max(0, now.Sub(b.since))
}

// Close writes the lines that wait, for up to patience. Later lines are left out.
func (b *Buffer) Close(patience time.Duration) {
	b.mu.Lock()
	if !b.closed {
		close(b.end)
	}
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.rouse()
	b.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-timer.C:
	}
}
