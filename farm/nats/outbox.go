package nats

import (
	"sync"

	"weir/farm"
)

// Bounds of the outbox.
const (
	maxOutbox         = 1 << 20 // bytes
	maxOutboxMessages = 8192
)

// A letter is a message on its way out.
type letter struct {
	subject, reply string
	msg            []byte
}

func (l *letter) size() int { return len(l.subject) + len(l.reply) + len(l.msg) }

// An outbox holds what waits to be sent, so that nobody who sends waits for a connection. One goroutine takes from it.
type outbox struct {
	empty chan struct{} // closed when all is sent after close, or given up

	mu     sync.Mutex
	ready  sync.Cond
	queue  []letter
	bytes  int
	closed bool
}

func newOutbox() *outbox {
	o := &outbox{empty: make(chan struct{})}
	o.ready.L = &o.mu
	return o
}

// put adds a letter, and takes over its bytes.
func (o *outbox) put(l letter) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return farm.ErrClosed
	case len(o.queue) >= maxOutboxMessages || o.bytes+l.size() > maxOutbox:
		return farm.ErrOutbox
	}
	o.queue = append(o.queue, l)
	o.bytes += l.size()
	o.ready.Signal()
	return nil
}

// take waits for letters and returns all that there are. There will be none when it returns nil. Give the slice back
// with the next call.
func (o *outbox) take(used []letter) []letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 && !o.closed {
		o.ready.Wait()
	}
	if len(o.queue) == 0 {
		return nil
	}
	batch := o.queue
	clear(used)
	o.queue = used[:0]
	return batch
}

// sent says that a letter is gone. It counts as waiting until then.
func (o *outbox) sent(l *letter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= l.size()
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.ready.Signal()
}

// abandon throws away what still waits, and returns how many letters that were.
func (o *outbox) abandon() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.queue)
	for i := range o.queue {
		o.bytes -= o.queue[i].size()
	}
	o.queue = nil
	return n
}

func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
