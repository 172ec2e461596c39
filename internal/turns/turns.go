// Package turns lets a few callers work at once. Those who wait have a rank, so that a crowd of strangers does not keep
// out those who are known.
package turns

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrBusy is returned where as many of a rank wait as may.
var ErrBusy = errors.New("turns: too many wait")

// A Rank says who goes first. Each rank has a line of its own.
type Rank uint8

// The ranks.
const (
	First Rank = iota
	Second
	Last
	ranks
)

// lastEvery is how often the last rank has a turn before the others: a crowd of those who are known must not keep out
// everybody else either.
const lastEvery = 4

// knownFactor is how many times as long the lines of First and Second may be as that of Last.
const knownFactor = 16

// Turns are safe for concurrent use. New makes them.
type Turns struct {
	atOnce, waiting int

	mu     sync.Mutex
	busy   int
	passed int // turns that were passed on
	lines  [ranks][]chan struct{}
}

// New returns turns of so many at once. As many as waiting may wait with the rank Last, and sixteen times as many with
// each of the others.
func New(atOnce, waiting int) *Turns { return &Turns{atOnce: atOnce, waiting: waiting} }

// Take waits for a turn. After nil, Done must be called once. Its errors are ErrBusy and that of the context.
func (t *Turns) Take(ctx context.Context, r Rank) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	turn, err := t.join(r)
	if turn == nil {
		return err
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		t.leave(r, turn)
		return ctx.Err()
	}
}

// join takes a turn that is free, or joins a line: turn is closed when it has come.
func (t *Turns) join(r Rank) (turn chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy < t.atOnce { // nobody waits
		t.busy++
		return nil, nil
	}
	most := t.waiting
	if r != Last {
		most *= knownFactor
	}
	if len(t.lines[r]) >= most {
		return nil, ErrBusy
	}
	turn = make(chan struct{})
	t.lines[r] = append(t.lines[r], turn)
	return turn, nil
}

// leave gives up the place in a line. A turn that has just come is passed on.
func (t *Turns) leave(r Rank, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.lines[r], turn); i >= 0 {
		t.lines[r] = slices.Delete(t.lines[r], i, i+1)
		return
	}
	t.pass()
}

// Done ends a turn.
func (t *Turns) Done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass lets the next one work. t.mu is held.
func (t *Turns) pass() {
	t.passed++
	order := [...]Rank{First, Second, Last}
	if t.passed%lastEvery == 0 {
		order = [...]Rank{Last, First, Second}
	}
	for _, r := range order {
		if line := t.lines[r]; len(line) > 0 {
			close(line[0])
			t.lines[r] = slices.Delete(line, 0, 1)
			return
		}
	}
	t.busy--
}

// Inside is how many work or wait.
func (t *Turns) Inside() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.busy
	for _, line := range t.lines {
		n += len(line)
	}
	return n
}
