package stamp

import (
	"math"
	"time"

	"weir"
	"weir/throttle/stamp/classic"
)

// A Difficulty decides how much work is asked for. It is pure: what it needs to remember is in the State that goes in
// and comes out. There are three, and Options.Difficulty makes the one that is configured:
//
//   - steered (the default): every second by the delay that stamped requests meet in their lane. Up fast, down by a
//     third, nothing at all when the load is gone, never more than a phone can bear.
//   - in steps: a list of loads and works.
//   - doubling, as in the source document: classic.Doubling.
type Difficulty struct {
	steps    []Step
	doubling classic.Doubling // without an interval: steered, unless there are steps
	from     weir.Share
	first    Work
	least    Work // of the algorithm: no puzzle asks for less
	most     Work
	target   time.Duration
}

// A State is what a Difficulty remembers. The zero value is dormant.
type State struct {
	Work Work // what is asked for now; zero: nothing

	at    time.Time     // of the last step; doubling: the start of the interval
	level float64       // the work before it is rounded
	was   float64       // and before the last step: those who pay it still come
	delay time.Duration // at the last step
	low   float64       // a level at which the delay was over the target and rose
	since time.Time     // when that was
}

// tick is how often the steered difficulty moves.
const tick = time.Second

// Next returns what follows from a state at a time, under a load (in use / capacity) and with a delay of the stamped
// lane. Call it at least every second; calling it more often changes nothing.
func (d *Difficulty) Next(s State, now time.Time, load weir.Share, delay time.Duration) State {
	switch {
	case len(d.steps) > 0:
		s.Work = d.step(load)
		s.at = now
		return s
	case d.doubling.Interval > 0:
		work, since := d.doubling.Next(uint64(s.Work), s.at, now, load)
		return State{Work: Work(work), at: since}
	default:
		return d.steer(s, now, load, delay)
	}
}

func (d *Difficulty) step(load weir.Share) Work {
	var w Work
	for _, s := range d.steps {
		if load >= s.Load {
			w = s.Work
		}
	}
	if w > 0 {
		w = max(w, d.least)
	}
	return w
}

// How the steered difficulty moves.
const (
	leastRise = 2.0
	mostRise  = 8.0
	fall      = 2.0 / 3
	easing    = 0.7              // a delay that fell to this share of the last one is on its way down by itself
	margin    = 2.0              // over a level that was too low: a step down leads to at least that
	memory    = 30 * time.Second // before a level that was too low is tried again
	briefly   = 5 * time.Second  // … where there is little load: time for those who work on stamps to come with them
	// it falls to this part of the first work before it goes dormant, so that it does not flap
	doze = 4
)

func (d *Difficulty) steer(s State, now time.Time, load weir.Share, delay time.Duration) State {
	passed := now.Sub(s.at)
	if s.at.IsZero() || passed < 0 {
		passed = tick
	}
	if passed < tick {
		return s
	}
	loaded := load >= d.from
	first := float64(d.First())
	was := s.level
	switch {
	case s.level == 0 && (loaded || delay > d.target):
		// Attackers may be able to pay, too.
		s.level = first * min(max(float64(load), 1), mostRise)
	case delay > d.target:
		if delay >= s.delay { // more come than go: too little is asked, or was until now
			if s.low, s.since = s.level, now; s.was > 0 { // before that, nobody paid
				s.low = min(s.level, s.was)
			}
		}
		// What is waiting was let in under the old work. While it drains fast enough, more work would overshoot.
		if float64(delay) > easing*float64(s.delay) {
			s.level *= min(leastRise*float64(delay)/float64(d.target), mostRise)
		}
	case delay < d.target/2:
		s.level *= math.Pow(fall, min(float64(passed/tick), 64))
		// A flood that cannot pay any more looks like no load, and would come back as soon as it can.
		remember := memory
		if load < d.from/2 {
			remember = briefly
		}
		if ago := now.Sub(s.since); ago >= 0 && ago < remember { // below zero: the clock was ahead, and has come back
			s.level = max(s.level, min(was, s.low*margin))
		}
		if loaded {
			s.level = max(s.level, first)
		} else if s.level < first/doze {
			s.level = 0
		}
	}
	s.level = min(s.level, float64(d.most))
	if s.Work = Work(math.Ceil(s.level)); s.Work > 0 {
		s.Work = max(s.Work, d.least)
	}
	s.at, s.delay, s.was = now, delay, was
	return s
}

// First is the work that is asked for first.
func (d *Difficulty) First() Work { return min(d.first, d.most) }

// Most is the work that is never exceeded.
func (d *Difficulty) Most() Work { return d.most }
