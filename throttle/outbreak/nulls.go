package outbreak

import "time"

// TakeNull takes one message without a sender that is not counted otherwise, and reports whether it may go on. Its
// bucket has nothing to do with the working set, the credit, the delay queue or the stop.
func (s *State) TakeNull(p *Params, now time.Time) bool {
	next, ok := s.null(p, now)
	if ok && next != 0 {
		s.nulls = next
	}
	return ok
}

// MayNull says what TakeNull would, and changes nothing.
func (s *State) MayNull(p *Params, now time.Time) bool {
	_, ok := s.null(p, now)
	return ok
}

// ForgetNulls begins to count messages without a sender anew.
func (s *State) ForgetNulls() { s.nulls = 0 }

// null returns when one more message is forgotten; 0 where nobody counts them.
func (s *State) null(p *Params, now time.Time) (next int64, ok bool) {
	per, every := int64(p.Nulls.Per), int64(p.Nulls.Every)
	if per <= 0 || every <= 0 || p.Exempt {
		return 0, true
	}
	t := nanos(now)
	full := after(t, per)
	// A clock that was ahead, or a longer period before, leaves a full bucket at most.
	next = after(max(min(s.nulls, full), t), every)
	return min(next, never-1), next <= full
}
