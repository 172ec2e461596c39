package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"
)

// Calls that come while others are under way go together: one script answers them all. A script costs an engine more
// than a call does, and a message over the network costs both sides more than either.
const (
	// maxBatch is how many calls one script answers. An engine does nothing else meanwhile.
	maxBatch = 32
	// maxScripts is how many scripts of a lane are under way at a time. The next one begins when many calls wait: that
	// is cheaper for all than more scripts with fewer calls, and an engine that is far away still has enough to do.
	maxScripts = 4
	manyWait   = 3 // for each script under way
)

// A lane is calls that may go together. In a cluster those are the calls of one hash tag, as all their keys are on one
// node; otherwise all.
type lane struct {
	mu      sync.Mutex
	waiting []*call
	scripts int // under way
}

// A call is what a script is told of it. It is answered once. newCall makes one.
type call struct {
	names       [2]string
	run, engine string
	live        []string
	asked       []byte
	usual       bool

	ctx      context.Context
	answered chan answer
}

type answer struct {
	said string
	err  error
}

func newCall() any { return &call{answered: make(chan answer, 1)} }

// recycle takes a call back that has been answered. One that was given up is not taken back: it may be answered yet.
func (p *Pot) recycle(c *call) {
	*c = call{answered: c.answered, asked: c.asked[:0]}
	p.free.Put(c)
}

// exec has a call answered by a script, after which nobody else may use it. The client is not told of the deadline: the
// pot then knows of every call when it has been answered.
func (p *Pot) exec(ctx context.Context, client rueidis.Client, tag int, c *call) (string, error) {
	if p.calls.Add(1) > maxCalls {
		p.calls.Add(-1)
		return "", fmt.Errorf("%w: it has not answered %d calls", ErrBusy, maxCalls)
	}
	l := &p.lanes[tag]
	c.ctx = ctx
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	begins := l.scripts < maxScripts && len(l.waiting) > manyWait*l.scripts
	if begins {
		l.scripts++
	}
	l.mu.Unlock()
	if begins {
		go p.drain(l, client)
	}
	select {
	case a := <-c.answered:
		p.recycle(c)
		return a.said, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-c.answered: // both are there where this node had no time to look: the engine was not late
		p.recycle(c)
		return a.said, a.err
	default:
		return "", named(ctx.Err())
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

// together writes calls as the script reads them. What a call has in common with the one before is not sent again.
func together(batch []*call) (names []string, text []byte) {
	size := 0
	for _, c := range batch {
		size += headSize + len(c.asked)
	}
	names, text = make([]string, 0, 2*len(batch)), make([]byte, 0, size+256)
	var last *call
	for _, c := range batch {
		at, what := len(text), byte(0)
		text = append(text, 0, 0, 0, 0, 0)
		if last == nil || c.run != last.run || c.engine != last.engine {
			what |= hasRun
			text = appendText(appendText(text, c.run), c.engine)
		}
		if last == nil || !slices.Equal(c.live, last.live) {
			what |= hasLive
			text = appendLive(text, c.live)
		}
		if c.usual {
			what |= isUsual
		}
		text = append(text, c.asked...)
		binary.LittleEndian.PutUint32(text[at:], uint32(len(text)-at))
		text[at+headSize-1] = what
		names = append(names, c.names[0], c.names[1])
		last = c
	}
	return names, text
}

// answer runs the script for a batch.
func (p *Pot) answer(client rueidis.Client, batch []*call) {
	names, text := together(batch)
	args := []string{"", "", rueidis.BinaryString(text)}
	if p.clock != nil {
		args[0], args[1] = strconv.FormatInt(p.clock(), 10), p.identity()
	}
	all, err := p.lua.Exec(context.Background(), client, names, args).ToArray()
	if err = named(err); err == nil && len(all) != len(batch) {
		err = fmt.Errorf("%w: it answered %d of %d calls", ErrScript, len(all), len(batch))
	}
	p.calls.Add(-int64(len(batch))) // first, so that whoever has an answer may call again
	for i, c := range batch {
		a := answer{err: err}
		if err == nil {
			if a.said, a.err = all[i].ToString(); a.err != nil {
				a.err = fmt.Errorf("%w: its answer cannot be read: %w", ErrScript, a.err)
			}
		}
		c.answered <- a
	}
}
