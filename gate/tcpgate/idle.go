package tcpgate

import (
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/clock"
)

// An idler notices that nothing has moved for a while. Whatever moves only notes the time, and a timer looks at it.
type idler struct {
	gate     *Gate
	patience time.Duration
	expired  func()

	moved  atomic.Int64 // when something last moved, as Gate.Elapsed says
	paused atomic.Int32 // how many directions a throttle holds up: those are not idle

	mu    sync.Mutex
	timer clock.Timer
	over  bool
}

// start begins to look.
func (i *idler) start() {
	i.touch()
	i.again(i.patience)
}

// touch tells that something moves.
func (i *idler) touch() { i.moved.Store(int64(i.gate.Elapsed())) }

// left is how much longer nothing may move.
func (i *idler) left() time.Duration {
	if i.paused.Load() > 0 {
		return i.patience
	}
	return time.Duration(i.moved.Load()) + i.patience - i.gate.Elapsed()
}

func (i *idler) look() {
	if left := i.left(); left > 0 {
		i.again(left)
		return
	}
	i.expired()
}

func (i *idler) again(in time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.over {
		i.timer = i.gate.env.Clock.AfterFunc(in, i.look)
	}
}

// stop ends the watch.
func (i *idler) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	if i.timer != nil {
		i.timer.Stop()
	}
}
