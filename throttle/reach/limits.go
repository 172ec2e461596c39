package reach

import (
	"math"
	"time"
)

// ownTimes is how many times their own usual a user may have under a dynamic threshold, whatever is usual among others.
const ownTimes = 3

// A measure is what limits are made from, beside the meter: the history of the user as it is before a message.
type measure struct {
	r     *Rules
	p     *Population
	now   time.Time
	count float64 // recipients
	blur  float64 // how much more than one recipient a change of the sketch that counts stands for
}

// figures appends how the user stands in each window of the rules.
func (m *meter) figures(x *measure, out []Figure) []Figure {
	for _, w := range x.r.o.Windows {
		fresh := m.sum(w)
		out = append(out, Figure{Window: w, New: fresh, Limit: m.limit(x, w, fresh)})
	}
	return out
}

func (m *meter) limit(x *measure, w Window, fresh float64) float64 {
	o := &x.r.o
	if o.Threshold.Count > 0 {
		return float64(max(o.Floor, o.Threshold.Count))
	}
	limit := max(m.threshold(x, w, fresh), float64(o.Floor))
	// A sketch that is not exact any more is wrong by chance. Three times its usual error is not chance.
	if x.blur > 0 {
		limit += 3 * math.Sqrt(limit*x.blur)
	}
	return limit
}

// threshold is the limit without a floor, where it is no count.
func (m *meter) threshold(x *measure, w Window, fresh float64) float64 {
	o := &x.r.o
	// The window must have begun when the learning was over: a list brought before is allowed as long as it counts.
	age := m.age(m.at)
	if age < x.r.learn+w.shape().length {
		return float64(o.Newcomers)
	}
	before := max(x.count-fresh, 0)
	switch share := float64(o.Threshold.Share); {
	case share > 0 && o.Against == AgainstPrevious:
		limit := (1 + share) * m.previous(w)
		if m.flagged && w == m.by.Window && m.by.Limit > 0 {
			limit = min(limit, m.by.Limit) // what was tried since must not be what is usual
		}
		return limit
	case share > 0:
		return share * before
	}
	if x.p != nil {
		if limit, ok := x.p.Limit(x.r, x.now, w, time.Duration(age)*time.Second, before); ok {
			return max(limit, ownTimes*float64(m.usual[w])/fraction)
		}
	}
	return float64(o.Newcomers)
}
