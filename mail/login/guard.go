package login

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"weir"
)

// ErrGuessing is returned by Guard.Take when nothing is left of a limit.
var ErrGuessing = errors.New("login: too many wrong passwords, so this one is not checked")

// MaxInLine is how many guesses may wait for others with the same key. One more gets ErrBusy.
const MaxInLine = 256

// A Limit is a throttle that counts wrong passwords. Guesses with the same key share its units, and wait in line.
type Limit struct {
	Throttle weir.Throttle
	Key      string
	Account  string // what is charged; empty: the account of the event
}

// judge asks the throttle.
func (l *Limit) judge(ctx context.Context, ev weir.Event, a *weir.Answer) (admitted bool, err error) {
	if l.Account != "" {
		ev.Account = l.Account
	}
	err = l.Throttle.Judge(ctx, &ev, a)
	return err == nil && a.Verdict == weir.Admit, err
}

// A Guard limits wrong passwords. A guess takes its units before the password is verified, and a right password gives
// them back. So parallel guesses get no further than guesses one after the other.
//
// A guess that finds no unit left waits for those that are being verified, since they may give theirs back. So all
// users of a network who log in at once get in.
//
// It is safe for concurrent use. All who share a throttle share a Guard. The zero value is ready.
type Guard struct {
	mu    sync.Mutex
	lines map[string]*line // no empty ones
}

// A line has the guesses with one key.
type line struct {
	inside  int // being verified
	waiting []chan struct{}
}

// A Guess is a password that is being verified. End must be called once. A nil Guess has taken nothing.
type Guess struct {
	guard  *Guard
	limits []Limit
	holds  []weir.Hold
	others int64 // wrong passwords, and those being verified, that a limit counts beside this one; the most of any
}

// Take takes a unit of each limit, all of them or none. event returns what is judged. known reports whether the
// password was right a short while ago: then nothing is taken, and the guess is nil. A wait calls both again.
//
// Its errors are ErrGuessing, ErrBusy, that of the context, and those of the throttles.
func (g *Guard) Take(ctx context.Context, limits []Limit, event func() weir.Event, known func() bool) (*Guess, error) {
	called := "" // the key of the line that this one was called from
	for {
		if known() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.call(called) // nothing is taken of what was free
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

// try takes the units, or joins a line: turn is then closed when trying again is worthwhile.
func (g *Guard) try(ctx context.Context, limits []Limit, ev weir.Event, called string) (guess *Guess,
	turn chan struct{}, key string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	guess = &Guess{guard: g, limits: limits, holds: make([]weir.Hold, len(limits))}
	for i, l := range limits {
		var a weir.Answer
		admitted, err := l.judge(ctx, ev, &a)
		guess.holds[i] = a.Hold
		for _, f := range a.Figures {
			guess.others = max(guess.others, f.Limit-f.Remaining-1)
		}
		if admitted {
			continue
		}
		guess.settle(i+1, ev.Time, false)
		if called != l.Key || err != nil {
			g.call(called) // what is free there was of no use
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

// stand joins a line: at the front if the guess was called before. g.mu is held.
func (g *Guard) stand(key string, front bool) (chan struct{}, error) {
	n := g.lines[key]
	switch {
	case n == nil || n.inside == 0:
		return nil, ErrGuessing // nothing can be given back
	case len(n.waiting) >= MaxInLine && !front:
		return nil, ErrBusy
	}
	turn, at := make(chan struct{}), len(n.waiting)
	if front {
		at = 0
	}
	n.waiting = slices.Insert(n.waiting, at, turn)
	return turn, nil
}

// Charge charges a wrong password that was verified already: to all limits, or to none if one of them has nothing left.
// Then it returns ErrGuessing.
func (g *Guard) Charge(ctx context.Context, limits []Limit, ev weir.Event) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	guess := &Guess{guard: g, limits: limits, holds: make([]weir.Hold, len(limits))}
	for i, l := range limits {
		var a weir.Answer
		admitted, err := l.judge(ctx, ev, &a)
		guess.holds[i] = a.Hold
		if !admitted {
			guess.settle(i+1, ev.Time, false)
			return cmp.Or(err, ErrGuessing)
		}
	}
	guess.settle(len(limits), ev.Time, true)
	return nil
}

// End settles a guess. A wrong one stays charged. One that was right, or not verified, gives back what it took.
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
		case n.inside == 0: // no other guess will call them
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

// giveUp leaves a line. A guess that has just been called calls the next one.
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
