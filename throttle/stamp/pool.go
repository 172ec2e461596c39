package stamp

import (
	"context"
	"errors"
	"sync/atomic"
)

// A Pool bounds how many costly verifications are under way, and how many wait for their turn. Make it with NewPool.
type Pool struct {
	running chan struct{}
	waiting atomic.Int64
	most    int64
}

// NewPool makes a pool in which so many run at once and so many more may wait.
func NewPool(running, waiting int) *Pool {
	return &Pool{running: make(chan struct{}, max(running, 1)), most: int64(waiting)}
}

// enter takes a place, or waits for one until ctx ends. It returns ErrBusy when too many are waiting already.
func (p *Pool) enter(ctx context.Context) error {
	select {
	case p.running <- struct{}{}:
		return nil
	default:
	}
	if p.waiting.Add(1) > p.most {
		p.waiting.Add(-1)
		return ErrBusy
	}
	defer p.waiting.Add(-1)
	select {
	case p.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errors.Join(ErrBusy, ctx.Err())
	}
}

func (p *Pool) leave() { <-p.running }
