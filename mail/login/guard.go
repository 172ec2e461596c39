package login

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"weir"
)

// ErrGuessing is returned by Guard.Take where nothing is left.
var ErrGuessing = errors.New("login: too many wrong passwords, so that this one is not looked at")

// MaxInLine is how many guesses may wait for others with the same key. One more is turned away with ErrBusy.
const MaxInLine = 256

// A Limit is a throttle that counts wrong passwords. Guesses with the same key share its units, and wait in line.
type Limit struct {
	Throttle weir.Throttle
	Key      string
}

// A Guard limits wrong passwords. Checking and charging are one step: a guess takes its units before the password is
// verified, and a right password gives them back. So guesses that come at once are no more than guesses that come one
// after the other.
//
// What others take while they are being verified is no reason to turn somebody away, as they may give it back: whoever
// finds no unit left waits for them. Many users of one network who log in at once therefore all get in.
//
// It is safe for concurrent use. All who share a throttle share a Guard. The zero value is ready.
type Guard struct {
	mu    sync.Mutex
	lines map[string]*line // only those with somebody in them
}

// A line is who has units under a key, and who waits for one.
type line struct {
	inside  int // being verified
	waiting []chan struct{}
}

// A Guess is a password that is being verified. End must be called once. nil is one that takes nothing.
type Guess struct {
	guard  *Guard
	limits []Limit
	holds  []weir.Hold
}

// Take takes a unit of each limit, all of them or none. event tells what is judged, at its time; known reports whether
// the password was right a short while ago, in which case nothing is taken and the guess is nil. Both are asked again
// after a wait.
//
// Errors are ErrGuessing where nothing is left, ErrBusy, the context's, and those of the throttles.
func (g *Guard) Take(ctx context.Context, limits []Limit, event func() weir.Event, known func() bool) (*Guess, error) {
	called := "" // the key of the line that this one was called from
	for {
		if known() {
			if called != "" {
				g.handOn(called)
			}
			return nil, nil
		}
		guess, turn, key, err := g.try(ctx, limits, event(), called)
		if turn == nil {
			return guess, err
		}
		select {
		case <-turn:
			called = key
		case <-ctx.Done():
			g.giveUp(key, turn)
			return nil, ctx.Err()
		}
	}
}

// try takes the units, or a place in line: then turn is closed when it is worth while to try again.
func (g *Guard) try(ctx context.Context, limits []Limit, ev weir.Event, called string) (guess *Guess,
	turn chan struct{}, key string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	guess = &Guess{g, limits, make([]weir.Hold, len(limits))}
	for i, l := range limits {
		var a weir.Answer
		err := l.Throttle.Judge(ctx, &ev, &a)
		guess.holds[i] = a.Hold
		if err == nil && a.Verdict == weir.Admit {
			continue
		}
		guess.settle(i+1, ev.Time, false)
		if called != l.Key || err != nil {
			g.call(called) // it had no use for what is left there
		}
		if err != nil {
			return nil, nil, "", err
		}
		turn, err = g.stand(l.Key, called == l.Key)
		return nil, turn, l.Key, err
	}
	for _, l := range limits {
		g.line(l.Key).inside++
	}
	return guess, nil, "", nil
}

// stand takes a place in line, at the front for whoever was called already. g.mu is held.
func (g *Guard) stand(key string, front bool) (chan struct{}, error) {
	n := g.lines[key]
	switch {
	case n == nil || n.inside == 0:
		return nil, ErrGuessing // nobody gives anything back
	case len(n.waiting) >= MaxInLine && !front:
		return nil, ErrBusy
	}
	turn := make(chan struct{})
	if front {
		n.waiting = slices.Insert(n.waiting, 0, turn)
	} else {
		n.waiting = append(n.waiting, turn)
	}
	return turn, nil
}

// End settles a guess. A wrong one stays charged; one that was right, or that nobody verified, gives back what it took.
func (q *Guess) End(now time.Time, wrong bool) {
	if q == nil {
		return
	}
	q.guard.mu.Lock()
	defer q.guard.mu.Unlock()
	q.settle(len(q.limits), now, wrong)
	for _, l := range q.limits {
		n := q.guard.line(l.Key)
		n.inside--
		switch {
		case n.inside == 0: // nobody is left who could call the others
			for range len(n.waiting) {
				q.guard.call(l.Key)
			}
		case !wrong:
			q.guard.call(l.Key)
		}
		q.guard.clean(l.Key)
	}
}

func (q *Guess) settle(n int, now time.Time, done bool) {
	for i := range n {
		if !q.holds[i].IsZero() {
			q.limits[i].Throttle.Settle(q.holds[i], weir.Outcome{Time: now, Done: done})
		}
	}
}

func (g *Guard) line(key string) *line {
	n := g.lines[key]
	if n == nil {
		if g.lines == nil {
			g.lines = map[string]*line{}
		}
		n = &line{}
		g.lines[key] = n
	}
	return n
}

// call lets the first of a line try again. g.mu is held.
func (g *Guard) call(key string) {
	if n := g.lines[key]; n != nil && len(n.waiting) > 0 {
		close(n.waiting[0])
		n.waiting = n.waiting[1:]
		g.clean(key)
	}
}

func (g *Guard) clean(key string) {
	if n := g.lines[key]; n != nil && n.inside == 0 && len(n.waiting) == 0 {
		delete(g.lines, key)
	}
}

// handOn calls the next where somebody who was called takes nothing.
func (g *Guard) handOn(called string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.call(called)
}

// giveUp leaves a line. Whoever was called just then calls the next.
func (g *Guard) giveUp(key string, turn chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.lines[key]; n != nil {
		if i := slices.Index(n.waiting, turn); i >= 0 {
			n.waiting = slices.Delete(n.waiting, i, i+1)
			g.clean(key)
			return
		}
	}
	g.call(key)
}
