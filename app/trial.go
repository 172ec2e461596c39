package app

import (
	"context"
	"errors"
	"sync"
	"time"
)

// tryEvery is how often the store is tried while somebody asks whether mail can be taken.
const tryEvery = 5 * time.Second

// diskPatience is how long the disk may take to answer.
const diskPatience = 10 * time.Second

var errHangs = errors.New("the disk does not answer")

// A trial finds out whether messages can be stored, before the first one is put off: a file system that has become
// read-only tells nobody. It tries when somebody asks, and never twice at once.
type trial struct {
	mu    sync.Mutex
	began time.Time // when the last one began, by the clock of weir
	since time.Time // the same by the machine's: what a disk takes is real time, even where a test has its own
	under bool      // it is not over
	ended bool      // there are no more
	over  sync.WaitGroup
}

// begin reports how long a try has been under way, and begins one if the last one is long ago.
func (t *trial) begin(now time.Time, try func()) (under time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.under {
		return time.Since(t.since)
	}
	if age := now.Sub(t.began); t.ended || !t.began.IsZero() && age >= 0 && age < tryEvery {
		return 0
	}
	t.began, t.since, t.under = now, time.Now(), true
	t.over.Go(func() {
		try()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.under = false
	})
	return 0
}

// end waits for the one under way.
func (t *trial) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.over.Wait()
}

// mailStored returns why messages could not be stored when that was last tried.
func (b backend) mailStored() error {
	k := b.kept.Load()
	if k == nil || b.state.Load() != serving {
		return nil
	}
	if err := b.post.Full(); err != nil {
		return err
	}
	took := k.trial.begin(b.clock.Now(), func() { k.health.note(partMail, k.store.Try(context.Background())) })
	if took > diskPatience {
		return errHangs
	}
	return k.health.failing(partMail)
}
