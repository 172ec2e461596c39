package demo

import (
	"context"
	"time"

	"weir/lab/machine"
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

// work rests and acts until ctx ends. It rests first, so that people do not all come at once, and not before the flood.
// What is under way at the end is finished.
func (a *player) work(ctx context.Context, act func(context.Context) Result) {
	whole := context.WithoutCancel(ctx)
	result := Served
	for machine.Sleep(ctx, a.Pause(result)) {
		if wait := a.away(time.Now()); wait > 0 {
			machine.Sleep(ctx, wait)
			result = Served
			continue
		}
		began := time.Now()
		result = act(whole)
		if now := time.Now(); result != Nothing {
			a.tally.add(result, now.Sub(began), now)
		}
	}
}
