package demo

import (
	"context"
	"time"
)

// round is how long a half with an open end goes on before it begins anew, for actors who do not come all the time.
const round = 30 * time.Second

type player struct {
	Actor
	tally tally
	half  halfTime
	turn  Span // in this half
}

// A halfTime says when a half began and how long it takes, or one round of it where the end is open.
type halfTime struct {
	began time.Time
	takes time.Duration
	open  bool
}

func newHalfTime(began time.Time, length time.Duration) halfTime {
	if length <= 0 {
		return halfTime{began, round, true}
	}
	return halfTime{began, length, false}
}

func (a *player) begin(on bool, half halfTime) {
	a.tally.begin()
	a.half = half
	if a.Turn != nil {
		a.turn = a.Turn(on, half.takes)
	}
}

// away returns how long it is until the actor comes; 0 while it is there.
func (a *player) away(now time.Time) time.Duration {
	if a.Turn == nil {
		return 0
	}
	at := now.Sub(a.half.began)
	if a.half.open {
		at %= a.half.takes
	}
	switch {
	case a.turn.From >= a.turn.To:
		return a.half.takes + 1 // not in this half
	case at < a.turn.From:
		return a.turn.From - at
	case at >= a.turn.To:
		return max(a.half.takes-at, 0) + a.turn.From + 1
	}
	return 0
}

func (a *player) networks(s *Stage) Networks {
	if a.Networks == nil {
		return Networks{}
	}
	return a.Networks(s)
}

// work rests and acts until ctx ends: people do not all come at the stroke of the clock, and not before the flood. What
// is under way at the end is finished all the same.
func (a *player) work(ctx context.Context, act func(context.Context) Result) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	rest := func(d time.Duration) {
		if d <= 0 {
			return
		}
		timer.Reset(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	whole := context.WithoutCancel(ctx)
	result := Served
	for {
		rest(a.Pause(result))
		wait := a.away(time.Now())
		if ctx.Err() != nil {
			return
		}
		if wait > 0 {
			rest(wait)
			result = Served
			continue
		}
		began := time.Now()
		result = act(whole)
		now := time.Now()
		if result == Nothing {
			continue
		}
		a.tally.add(result, now.Sub(began), now)
	}
}
