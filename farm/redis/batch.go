package redis

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/rueidis"
)

// Calls that come while others are under way go together: one script answers them all. A script costs an engine more
// than a call does, and a message over the network costs both sides more than either.
const (
	// maxBatch is how many calls one script answers. An engine does nothing else meanwhile.
	maxBatch = 32
	// maxScripts is how many scripts of a lane are under way at a time: the next one is there when the engine is ready.
	maxScripts = 2
)

// A lane is calls that may go together. In a cluster those are the calls of one hash tag, as all their keys are on one
// node; otherwise all.
type lane struct {
	mu      sync.Mutex
	waiting []*call
	scripts int // under way
}

// A call is what a script is told of it. It is answered once.
type call struct {
	ctx      context.Context
	names    [2]string
	args     []string
	answered chan answer
}

type answer struct {
	items []rueidis.RedisMessage
	err   error
}

// exec has a call answered by a script. The client is not told of the deadline: the pot then knows of every call when
// it has been answered.
func (p *Pot) exec(ctx context.Context, client rueidis.Client, tag int, names [2]string, args []string) (
	[]rueidis.RedisMessage, error) {
	if p.calls.Add(1) > maxCalls {
		p.calls.Add(-1)
		return nil, fmt.Errorf("%w: it has not answered %d calls", ErrBusy, maxCalls)
	}
	l := &p.lanes[0]
	if p.where.cluster {
		l = &p.lanes[tag]
	}
	c := &call{ctx, names, args, make(chan answer, 1)}
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	begins := l.scripts < maxScripts
	if begins {
		l.scripts++
	}
	l.mu.Unlock()
	if begins {
		go p.drain(l, client)
	}
	select {
	case <-ctx.Done():
		return nil, named(ctx.Err())
	case a := <-c.answered:
		return a.items, a.err
	}
}

// drain has calls answered until none waits.
func (p *Pot) drain(l *lane, client rueidis.Client) {
	for {
		batch := p.gather(l)
		if batch == nil {
			return
		}
		p.answer(client, batch)
		p.calls.Add(-int64(len(batch)))
	}
}

// gather returns the calls that go together next, without those that were given up. When there are none, the lane has a
// script less under way.
func (p *Pot) gather(l *lane) (batch []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, c := range l.waiting {
		if len(batch) == maxBatch {
			break
		}
		n++
		if c.ctx.Err() != nil {
			p.calls.Add(-1)
			continue
		}
		batch = append(batch, c)
	}
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
	if batch == nil {
		l.scripts--
	}
	return batch
}

// answer runs the script for a batch.
func (p *Pot) answer(client rueidis.Client, batch []*call) {
	names := make([]string, 0, 2*len(batch))
	args := make([]string, 2, 2+20*len(batch))
	if p.clock != nil {
		args[0], args[1] = number(p.clock()), p.identity()
	}
	for _, c := range batch {
		names = append(names, c.names[:]...)
		args = append(args, c.args...)
	}
	all, err := p.lua.Exec(context.Background(), client, names, args).ToArray()
	if err = named(err); err == nil && len(all) != len(batch) {
		err = fmt.Errorf("%w: it answered %d of %d calls", ErrScript, len(all), len(batch))
	}
	for i, c := range batch {
		a := answer{err: err}
		if err == nil {
			if a.items, err = all[i].ToArray(); err != nil {
				a.err, err = fmt.Errorf("%w: its answer cannot be read: %w", ErrScript, err), nil
			}
		}
		c.answered <- a
	}
}
