package outbreak

import (
	"slices"
	"time"
)

// A Decision is what Submit says about a mail as a whole.
type Decision struct {
	Refused bool // the user is stopped: nothing of the mail is taken
	Full    bool // refused because MaxItems would be exceeded
	Stopped bool // the user has just been stopped by this mail, whose recipients have their fates all the same
	Held    bool // the mail is held for review
	Passed  int
	Delayed int
}

// Submit says what becomes of each recipient of a mail: fates[i] for keys[i], which is the recipient's keyed hash. It
// is one of numbers[i] in the mail, or of i without numbers. mail names the mail in the Items of later; 0 keeps count
// of it and nothing else. Recipients that are never counted are not given to it: a mail to one that it counts is a mail
// to one. Without any, it does nothing. Where the mail is refused, fates is left alone.
//
// Call Tick with the same now first, and see to what leaves the queue. Submit does not do so by itself, because what
// leaves would be lost: without Tick, what is due stays in the queue until the next one, and counts as waiting.
func (s *State) Submit(p *Params, now time.Time, mail uint64, keys []uint64, numbers []int,
	fates []Fate) Decision {
	t := nanos(now)
	s.settle(p, t)
	d := s.judge(p, keys, fates)
	if len(keys) == 0 || p.Exempt || d.Refused || d.Held {
		return d
	}
	if !s.started {
		s.last, s.multi, s.started = t, t, true
		s.repace(p, t)
	}
	switch single := len(keys) == 1; {
	case single && d.Passed == 1:
		if !s.knows(p, keys[0]) {
			s.spent++
		}
		s.remember(p, keys[0])
	case !single:
		s.mSpent += int32(d.Passed)
	}
	s.wait(mail, keys, numbers, d.Passed)
	if d.Stopped {
		s.stop(t)
	}
	return d
}

// Hold puts recipients of a mail into the delay queue of a stopped user, whose server has taken it already: they wait
// with what waited before the stop, and nothing is charged. keys, numbers and mail are those of Submit. It
// reports whether it fitted; the user must be stopped.
func (s *State) Hold(now time.Time, mail uint64, keys []uint64, numbers []int) bool {
	if !s.stopped || len(s.queue)+len(keys) > MaxItems {
		return false
	}
	if len(keys) > 0 && !s.started {
		t := nanos(now)
		s.last, s.multi, s.started = t, t, true
	}
	s.wait(mail, keys, numbers, 0)
	return true
}

func (s *State) wait(mail uint64, keys []uint64, numbers []int, from int) {
	for i := from; i < len(keys); i++ {
		number := i
		if numbers != nil {
			number = numbers[i]
		}
		s.queue = append(s.queue, Item{Mail: mail, Number: number, Key: keys[i], Single: len(keys) == 1})
	}
}

// Peek says what Submit would after a Tick, and changes nothing.
func (s *State) Peek(p *Params, now time.Time, keys []uint64, fates []Fate) Decision {
	c := s.at(p, now)
	return c.judge(p, keys, fates)
}

// at returns the state as a Tick would make it, to be looked at.
func (s *State) at(p *Params, now time.Time) State {
	c := *s
	// With two clocks one may earn credit while somebody waits for the other.
	if due := s.Due(p); !due.IsZero() && (p.two() || !due.After(now)) {
		c.set, c.queue = slices.Clone(s.set), slices.Clone(s.queue)
		c.Tick(p, now, nil)
	} else {
		c.settle(p, nanos(now))
	}
	return c
}

// judge decides about a mail. Those that pass come first.
func (s *State) judge(p *Params, keys []uint64, fates []Fate) (d Decision) {
	n := len(keys)
	switch {
	case n == 0:
		return d
	case s.operator, s.stopped && !p.Exempt:
		return Decision{Refused: true}
	case p.Exempt:
		d.Passed = n
	case n > 1:
		d.Passed = min(n, s.mSlack(p))
	case s.slack(p) > 0 || s.knows(p, keys[0]):
		d.Passed = 1
	}
	d.Delayed = n - d.Passed
	stop := min(max(p.Stop, 0), MaxItems)
	switch {
	case d.Delayed == 0:
	case p.HoldLarge && d.Delayed > stop:
		fill(fates, n, Hold)
		return Decision{Held: true}
	case len(s.queue)+d.Delayed > MaxItems:
		return Decision{Refused: true, Full: true}
	default:
		d.Stopped = len(s.queue)+d.Delayed > stop
	}
	fill(fates, n, Delay)
	fill(fates, d.Passed, Pass)
	return d
}

func fill(fates []Fate, n int, with Fate) {
	for i := range fates[:min(n, len(fates))] {
		fates[i] = with
	}
}
