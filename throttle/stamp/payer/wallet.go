package payer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"weir/throttle/stamp"
)

// A coin is what a request pays with: a stamp, and the id of the client that it is for. Either may be missing.
type coin struct {
	stamp, client string
	until         time.Time
	used          atomic.Bool // it was honoured at least once
}

// honour notes that a request with it was not asked to pay again.
func (c *coin) honour() {
	if c != nil {
		c.used.Store(true)
	}
}

// honoured reports whether it was ever accepted. If it was and no longer is, it is used up.
func (c *coin) honoured() bool { return c != nil && c.used.Load() }

func (c *coin) id() string {
	if c == nil {
		return ""
	}
	return c.client
}

// A bill is what an answer asks for.
type bill struct {
	host   string
	text   string // the challenge
	client string // the client that it asks
	single bool   // the stamp pays for one message only
	until  time.Time
}

// A wallet holds the stamp of one host. Only one stamp is worked on at a time.
type wallet struct {
	turn chan struct{}

	mu     sync.Mutex
	coin   *coin
	client string
	job    *job
}

// A job is a stamp that is being made for all who wait for it.
type job struct {
	cancel  context.CancelFunc
	done    chan struct{}
	coin    *coin
	err     error
	waiting int
}

// take returns what to send along with a request, or nil.
func (w *wallet) take(now time.Time) *coin {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.coin != nil && now.Before(w.coin.until):
		return w.coin
	case w.client != "":
		return &coin{client: w.client}
	}
	return nil
}

func (w *wallet) drop(c *coin) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.coin == c {
		w.coin = nil
	}
}

// pay returns a stamp for a bill: one that somebody else made meanwhile, or is making, or a new one.
func (w *wallet) pay(ctx context.Context, t *Transport, b *bill) (*coin, error) {
	if b.single {
		c, err := w.make(ctx, t, b)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.client = b.client
		return c, err
	}
	w.mu.Lock()
	if w.coin != nil && time.Now().Before(w.coin.until) {
		defer w.mu.Unlock()
		return w.coin, nil
	}
	j := w.job
	if j == nil {
		// The job goes on for the others when the request that began it is given up.
		jobCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		j = &job{cancel: cancel, done: make(chan struct{})}
		w.job = j
		go w.run(jobCtx, t, b, j)
	}
	j.waiting++
	w.mu.Unlock()

	select {
	case <-j.done:
		return j.coin, j.err
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.waiting--; j.waiting == 0 {
		j.cancel()
		if w.job == j {
			w.job = nil
		}
	}
	return nil, ctx.Err()
}

// run makes a stamp for all who wait, and keeps it for those who come later.
func (w *wallet) run(ctx context.Context, t *Transport, b *bill, j *job) {
	defer j.cancel()
	j.coin, j.err = w.make(ctx, t, b)
	w.mu.Lock()
	if w.job == j {
		w.job = nil
		if j.err == nil {
			w.coin, w.client = j.coin, b.client
		}
	}
	w.mu.Unlock()
	close(j.done)
}

// make works on a stamp. Stamps are made one after the other, so that the first is done sooner.
func (w *wallet) make(ctx context.Context, t *Transport, b *bill) (*coin, error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	o := Options{MaxTime: t.MaxTime, Workers: t.Workers}
	if t.Progress != nil {
		o.Progress = func(done, expected stamp.Work) { t.Progress(b.host, done, expected) }
	}
	p, err := Pay(ctx, b.text, o)
	if err != nil {
		return nil, err
	}
	if t.Paid != nil {
		t.Paid(b.host, p)
	}
	return &coin{stamp: p.Stamp, client: b.client, until: b.until}, nil
}
