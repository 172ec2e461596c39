package reach

import (
	"math"
	"time"
)

// A meter is what a state remembers beside its history: how many were new and when, what is usual for the user, and the
// flag. It is small and without pointers: a message is judged on a copy.
type meter struct {
	ring
	started bool
	since   int64 // seconds: the first message, or a time at which the account was there before
	pending uint8 // bits: in the current period of a window something was sent

	usual [len(Windows)]uint32 // new recipients in a period in which the user sends something, as in a slot
	seen  [len(Windows)]uint8  // how many periods that is the mean of, up to usualOf

	flag
}

// usualOf is how many periods the usual is the mean of; from then on each counts for 1/usualOf, and older ones fade.
const usualOf = 8

// usualLeast is what may always be learnt as usual: three times that is the default floor.
const usualLeast = DefaultFloor / 3.0

// start notes a message. The first one begins the account.
func (m *meter) start(now int64) {
	if !m.started {
		m.started, m.since = true, now
	}
	m.pending = 1<<len(Windows) - 1
}

// age is how long the account has been known.
func (m *meter) age(now int64) int64 {
	if !m.started {
		return 0
	}
	return max(now-m.since, 0)
}

// pass lets the clock run to now. Periods that end make samples, appended to out; count is the user's recipients.
func (m *meter) pass(now int64, count float64, out *[]Sample) {
	if now < lost && m.at >= lost {
		now = m.at
	}
	if m.pending != 0 && now > m.at {
		from, to := gridOf(m.at), gridOf(now)
		for _, w := range Windows {
			period, into := from.period(w)
			if next, _ := to.period(w); m.pending&(1<<w) != 0 && next != period {
				m.pending &^= 1 << w
				m.end(w, into, count, out)
			}
		}
	}
	m.move(now)
	// A clock that was ahead leaves nothing that begins in the future.
	m.since, m.flagSince = min(m.since, m.at), min(m.flagSince, m.at)
	m.ended, m.sentSince = min(m.ended, m.at), min(m.sentSince, m.at)
}

// end makes a sample of the period that the clock is in, which is over. into is how many of its slots were over before.
func (m *meter) end(w Window, into int64, count float64, out *[]Sample) {
	s := w.shape()
	begin := m.at - m.at%s.slot - into*s.slot
	if m.flagged || m.ended > begin {
		return // nothing of what a flagged user does is usual
	}
	fresh := m.latest(w, into+1)
	m.learn(w, fresh)
	if out != nil {
		*out = append(*out, Sample{
			Window: w, Age: time.Duration(m.age(begin+s.length)) * time.Second, Size: max(count-fresh, 0), New: fresh,
		})
	}
}

// learn takes a period into the usual, by the geometric mean, to which one import of a list is little. Once it is known
// what is usual, a period counts for a quarter more than that at most, or for a third of the least that a floor may be:
// so nobody is led to take a thief for usual who takes a little more each day.
func (m *meter) learn(w Window, fresh float64) {
	usual := float64(m.usual[w]) / fraction
	if m.seen[w] >= usualOf {
		fresh = min(fresh, max(1.25*usual, usualLeast))
	}
	m.seen[w] = min(m.seen[w]+1, usualOf)
	usual = math.Expm1(math.Log1p(usual) + (math.Log1p(fresh)-math.Log1p(usual))/float64(m.seen[w]))
	m.usual[w] = uint32(min(usual*fraction+0.5, math.MaxUint32))
}

// merge takes over what another node counted: slot by slot the greater, the earlier beginning and the later flag.
func (m *meter) merge(o *meter) {
	other := *o
	at := max(m.at, other.at)
	m.move(at)
	other.move(at)
	for i, n := range other.slots {
		m.slots[i] = max(m.slots[i], n)
	}
	switch {
	case !m.started:
		m.started, m.since = other.started, other.since
	case other.started:
		m.since = min(m.since, other.since)
	}
	m.pending |= other.pending
	for i := range m.usual {
		m.usual[i], m.seen[i] = max(m.usual[i], other.usual[i]), max(m.seen[i], other.seen[i])
	}
	m.flag.merge(&other.flag)
}
