package outbreak

import (
	"cmp"
	"math"
	"time"
)

// never is later than everything. Times are in nanoseconds since 1970, from 0 up to just before it.
const never = math.MaxInt64

// nanos returns a time as the state keeps it. Times before 1970 or after 2262 become the nearest that it can keep.
func nanos(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec < 0:
		return 0
	case sec >= never/int64(time.Second):
		return never - 1
	}
	return t.UnixNano()
}

func after(t, d int64) int64 {
	if t > never-d {
		return never
	}
	return t + d
}

// align lets a clock tick until now while nothing happens. Its phase stays.
func align(last, now, every int64) int64 {
	if now <= last {
		return last
	}
	return now - (now-last)%every
}

// periods returns the periods of the two clocks. Parameters without any get the defaults.
func (p *Params) periods(slow bool) (single, multi int64) {
	single = cmp.Or(max(0, int64(p.Every)), int64(time.Minute))
	multi = cmp.Or(max(0, int64(p.MultiEvery)), single)
	if slow {
		times := cmp.Or(max(0, int64(p.Slow)), DefaultSlow)
		single, multi = stretch(single, times), stretch(multi, times)
	}
	return single, multi
}

func stretch(d, times int64) int64 {
	if d > never/times {
		return never
	}
	return d * times
}

func (p *Params) two() bool {
	single, multi := p.periods(false)
	return single != multi
}

// Tick lets the clock run until now, and appends what leaves the delay queue by it, in order, to out. Every tick until
// now counts, at the pace that p says; how long ago the last call was costs nothing. A stopped user is tried again if
// it is time. If the user has become exempt, everything leaves, unless the user was stopped (see Resume).
func (s *State) Tick(p *Params, now time.Time, out []Item) []Item {
	if !s.started {
		return out
	}
	t := nanos(now)
	s.wind(p, t)
	switch {
	case p.Exempt && s.stopped && !s.operator:
		s.resume(p, t, false)
	case p.Exempt && !s.operator:
		out, s.slow = append(out, s.queue...), false
		s.keep(nil)
	case s.stopped && s.again(p) > t:
		s.idle(p, t)
		return out
	case s.stopped:
		s.resume(p, t, true)
	}
	if p.two() {
		out = s.runTwo(p, t, out)
	} else {
		out = s.runOne(p, t, out)
	}
	s.settle(p, t)
	return out
}

// Due is when Tick has something to do next: something leaves the queue, or a stopped user is tried again; zero: never.
func (s *State) Due(p *Params) time.Time {
	at := int64(never)
	switch single, multi := p.periods(s.slow); {
	case p.Exempt && !s.operator:
		if s.stopped || len(s.queue) > 0 {
			at = s.last
		}
	case s.stopped:
		at = s.again(p)
	case len(s.queue) == 0:
	case single == multi:
		at = after(s.last, single)
	default:
		if s.next(0, true) < len(s.queue) {
			at = after(s.last, single)
		}
		if s.next(0, false) < len(s.queue) {
			at = min(at, after(s.multi, multi))
		}
	}
	if at == never {
		return time.Time{}
	}
	return time.Unix(0, at)
}

func (s *State) again(p *Params) int64 {
	if s.operator || p.Resume <= 0 {
		return never
	}
	return after(s.since, int64(p.Resume))
}

// wind makes the state fit the parameters, and the time. A clock that is far ahead of now was set back, and is not
// waited for. A little is left alone: messages that come together may bring their times in any order.
func (s *State) wind(p *Params, now int64) {
	s.repace(p, now)
	single, multi := p.periods(s.slow)
	if s.last-now > single {
		s.last = now
	}
	if s.multi-now > multi {
		s.multi = now
	}
	if single == multi {
		s.multi = s.last
	}
	s.since = min(s.since, now)
	// Maxima may have been lowered.
	s.spent = min(s.spent, int32(credit(p.MaxSlack)))
	s.mSpent = min(s.mSpent, int32(credit(p.MaxMSlack)))
}

// repace lets the clocks go on at another pace when the parameters have changed: credit is earned at the old one until
// now, and what is left of an old period is no more than one of the new ones: else all that waits could leave at once.
func (s *State) repace(p *Params, now int64) {
	single, multi := p.periods(false)
	if every := [2]int64{single, multi}; s.started && s.every != every {
		if s.every[0] > 0 {
			if len(s.queue) == 0 && !s.stopped {
				s.spent, s.last = earn(s.spent, s.last, now, s.every[0])
				s.mSpent, s.multi = earn(s.mSpent, s.multi, now, s.every[1])
			}
			s.last, s.multi = max(s.last, now-single), max(s.multi, now-multi)
		}
		s.every = every
	}
}

// idle lets both clocks run until now while nothing happens, at the normal pace.
func (s *State) idle(p *Params, now int64) {
	if !s.started {
		return
	}
	single, multi := p.periods(false)
	s.last, s.multi = align(s.last, now, single), align(s.multi, now, multi)
}

// settle lets the clocks run until now as far as nothing leaves the queue by it: credit is earned where nobody waits,
// and what has nothing to do keeps up with the time.
func (s *State) settle(p *Params, now int64) {
	if !s.started {
		return
	}
	s.wind(p, now)
	single, multi := p.periods(s.slow)
	switch {
	case s.stopped:
		s.idle(p, now)
	case len(s.queue) == 0:
		s.spent, s.last = earn(s.spent, s.last, now, single)
		s.mSpent, s.multi = earn(s.mSpent, s.multi, now, multi)
		s.slow = s.slow && (s.spent > 0 || s.mSpent > 0)
	case single == multi:
	default:
		if s.tick(0, true, single) == never {
			s.last = align(s.last, now, single)
		}
		if s.tick(0, false, multi) == never {
			s.multi = align(s.multi, now, multi)
		}
	}
}

func earn(spent int32, last, now, every int64) (int32, int64) {
	aligned := align(last, now, every)
	ticks := (aligned - last) / every
	return int32(max(0, int64(spent)-ticks)), aligned
}

// runOne runs the one clock of all mails until now, or until nobody waits any more.
func (s *State) runOne(p *Params, now int64, out []Item) []Item {
	every, _ := p.periods(s.slow)
	n := 0
	for ; n < len(s.queue) && after(s.last, every) <= now; n++ {
		s.last = after(s.last, every)
		out = append(out, s.leave(p, n))
	}
	if n > 0 {
		s.keep(s.queue[:copy(s.queue, s.queue[n:])])
	}
	return out
}

// runTwo runs a clock for mails to one and another for mails to several, until now, or until nobody waits any more.
// Only the ticks are run that change something: there are no more of them than recipients waiting and credit missing.
func (s *State) runTwo(p *Params, now int64, out []Item) []Item {
	single, multi := p.periods(s.slow)
	i, j, left := 0, 0, len(s.queue) // the first that still wait, of either kind
	for left > 0 {
		i, j = s.next(i, true), s.next(j, false)
		atSingle, atMulti := s.tick(i, true, single), s.tick(j, false, multi)
		at := min(atSingle, atMulti)
		if at > now {
			break
		}
		// A clock that has nothing to do keeps up, should it get something to do by this tick.
		if atSingle == never {
			s.last = align(s.last, at, single)
		}
		if atMulti == never {
			s.multi = align(s.multi, at, multi)
		}
		switch {
		case at == atSingle && i < len(s.queue):
			s.last = at
			out = append(out, s.leave(p, i))
			i, left = i+1, left-1
		case at == atSingle:
			s.last = at
			s.spent--
		case j < len(s.queue):
			s.multi = at
			out = append(out, s.leave(p, j))
			j, left = j+1, left-1
		default:
			s.multi = at
			s.mSpent--
		}
	}
	s.leftTwo(i, j, left)
	return out
}

// leftTwo takes out of the queue what has left: mails to one before i, and the others before j.
func (s *State) leftTwo(i, j, left int) {
	if left == len(s.queue) {
		return
	}
	kept := s.queue[:0]
	for at, it := range s.queue {
		if it.Single && at >= i || !it.Single && at >= j {
			kept = append(kept, it)
		}
	}
	s.keep(kept)
}

// next is where the first of a kind waits, from an index on.
func (s *State) next(from int, single bool) int {
	for from < len(s.queue) && s.queue[from].Single != single {
		from++
	}
	return from
}

// tick is when the clock of a kind changes something: somebody leaves, or credit is earned; never where it does not.
func (s *State) tick(from int, single bool, every int64) int64 {
	last, spent := s.multi, s.mSpent
	if single {
		last, spent = s.last, s.spent
	}
	if s.next(from, single) < len(s.queue) || spent > 0 {
		return after(last, every)
	}
	return never
}

func (s *State) leave(p *Params, i int) Item {
	it := s.queue[i]
	if it.Single {
		s.remember(p, it.Key)
	}
	return it
}
