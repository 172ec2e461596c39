package reach

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// stateVersion is the first byte of a state. Then come what it has (two bytes of bits), when it began and where the
// clock is, what is usual, the flag, who was tried since, the sets that were begun late, the slots that are not empty,
// the sketch, and the recent part of the known recipients.
const stateVersion = 1

// What a state has.
const (
	hasStarted = 1 << iota
	hasFlag
	hasOperator
	hasSketch
	hasLate
	hasKnown
	hasFilter
	hasSettled
	hasUsual
	hasEnded
	hasSent
	hasKnownGap
	hasFilterGap
	hasPending // three bits
	hasAll     = hasPending<<len(Windows) - 1
)

// AppendBinary appends the state, without the settled part of the known recipients. It is versioned. There is no error.
func (s *State) AppendBinary(b []byte) ([]byte, error) {
	has := uint16(s.pending) * hasPending
	for i, there := range []bool{ // in the order of the bits
		s.started, s.flagged, s.operator, s.sketch != nil, s.late, s.known != nil, s.filtered, s.settled,
		s.seen != [len(Windows)]uint8{}, s.ended != 0, s.sent+s.before != 0, s.knownBy.gap != 0, s.filterBy.gap != 0,
	} {
		if there {
			has |= 1 << i
		}
	}
	b = append(b, stateVersion)
	b = binary.BigEndian.AppendUint16(b, has)
	b = binary.AppendUvarint(b, uint64(s.at))
	if s.started {
		b = s.appendTime(b, s.since)
	}
	if has&hasUsual != 0 {
		for i, n := range s.usual {
			b = binary.AppendUvarint(b, uint64(n)*(usualOf+1)+uint64(s.seen[i]))
		}
	}
	if s.flagged {
		b = append(s.appendTime(b, s.flagSince), byte(s.by.Window))
		b = binary.AppendUvarint(b, parts(s.by.New))
		b = binary.AppendUvarint(b, parts(s.by.Limit))
	}
	if has&hasEnded != 0 {
		b = s.appendTime(b, s.ended)
	}
	if has&hasSent != 0 {
		b = binary.AppendUvarint(s.appendTime(b, s.sentSince), uint64(s.before)*(maxSent+1)+uint64(s.sent))
	}
	if s.flagged {
		b = binary.AppendUvarint(b, uint64(len(s.tried)))
		for _, one := range s.tried {
			b = binary.AppendUvarint(b, uint64(one))
		}
	}
	for _, begun := range []begun{s.knownBy, s.filterBy} {
		if begun.gap != 0 {
			b = binary.AppendUvarint(s.appendTime(b, begun.at), uint64(begun.gap))
		}
	}
	b = s.appendSlots(b)
	if s.sketch != nil {
		at := len(b)
		b, _ = s.sketch.AppendBinary(append(b, 0, 0))
		binary.BigEndian.PutUint16(b[at:], uint16(len(b)-at-2)) // 44 KB are the most
	}
	if s.known != nil {
		b, _ = s.known.AppendRecent(b)
	}
	return b, nil
}

func (g *ring) appendTime(b []byte, t int64) []byte {
	return binary.AppendUvarint(b, uint64(max(g.at-t, 0)))
}

// parts is a number of recipients as in a slot, but larger.
func parts(n float64) uint64 { return uint64(min(n*fraction+0.5, maxParts)) }

const maxParts = 1 << 50

// appendSlots appends which slots are not empty, and what is in them: most are whole numbers.
func (g *ring) appendSlots(b []byte) []byte {
	for i := range shapes {
		slots, full := g.of(i), uint64(0)
		for n, v := range slots {
			if v != 0 {
				full |= 1 << n
			}
		}
		b = binary.AppendUvarint(b, full)
		for _, v := range slots {
			switch {
			case v == 0:
			case v%fraction == 0:
				b = binary.AppendUvarint(b, uint64(v/fraction)<<1)
			default:
				b = binary.AppendUvarint(b, uint64(v)<<1|1)
			}
		}
	}
	return b
}

// UnmarshalBinary reads what AppendBinary wrote, and nothing else: ErrNewer or ErrCorrupt, and the state is as before.
// Where NeedsKnown says so, give it the known recipients with SetKnown before Judge.
func (s *State) UnmarshalBinary(b []byte) error {
	r, err := newReader("a state", b, stateVersion)
	if err != nil {
		return err
	}
	var read State
	has := r.Uint16()
	if has&^hasAll != 0 || contradictory(has) {
		r.Fail()
	}
	read.at = int64(r.Count(maxTime))
	read.readMeter(r, has)
	read.readHistory(r, has)
	if err := r.end(); err != nil {
		return err
	}
	*s = read
	return nil
}

// contradictory reports whether no state has just that.
func contradictory(has uint16) bool {
	for _, c := range []struct{ some, needs uint16 }{
		{hasOperator, hasFlag}, {hasLate, hasSketch}, {hasKnownGap, hasKnown}, {hasFilterGap, hasFilter},
		{hasFilter, hasSettled},
		{hasSettled, hasKnown | hasFilter}, {hasUsual | hasPending*(1<<len(Windows)-1), hasStarted},
	} {
		if has&c.some != 0 && has&c.needs == 0 {
			return true
		}
	}
	return false
}

func (m *meter) readMeter(r *reader, has uint16) {
	ago := func() int64 { return m.at - int64(r.Count(uint64(m.at))) }
	m.started, m.pending = has&hasStarted != 0, uint8(has/hasPending)
	if m.started {
		m.since = ago()
	}
	if has&hasUsual != 0 {
		some := false
		for i := range m.usual {
			v := r.Count(math.MaxUint32*(usualOf+1) + usualOf)
			m.usual[i], m.seen[i] = uint32(v/(usualOf+1)), uint8(v%(usualOf+1))
			some = some || m.seen[i] > 0
			if m.seen[i] == 0 && v != 0 {
				r.Fail()
			}
		}
		if !some {
			r.Fail()
		}
	}
	if m.flagged = has&hasFlag != 0; m.flagged {
		m.operator = has&hasOperator != 0
		m.flagSince, m.by.Window = ago(), Window(r.Byte())
		m.by.New, m.by.Limit = float64(r.Count(maxParts))/fraction, float64(r.Count(maxParts))/fraction
		if int(m.by.Window) >= len(Windows) {
			r.Fail()
		}
	}
	if has&hasEnded != 0 {
		if m.ended = ago(); m.ended == 0 {
			r.Fail()
		}
	}
	if has&hasSent != 0 {
		m.sentSince = ago()
		sent := r.Count((maxSent+1)*(maxSent+1) - 1)
		if m.sent, m.before = int(sent%(maxSent+1)), int(sent/(maxSent+1)); sent == 0 {
			r.Fail()
		}
	}
}

func (s *State) readHistory(r *reader, has uint16) {
	if has&hasFlag != 0 {
		for range r.Count(maxTried) {
			s.tried = append(s.tried, uint32(r.Count(math.MaxUint32)))
		}
	}
	for _, one := range []struct {
		bit uint16
		*begun
	}{{hasKnownGap, &s.knownBy}, {hasFilterGap, &s.filterBy}} {
		if has&one.bit == 0 {
			continue
		}
		one.at = s.at - int64(r.Count(uint64(s.at)))
		if one.gap = uint32(r.Count(math.MaxUint32)); one.gap == 0 {
			r.Fail()
		}
	}
	s.readSlots(r)
	s.late, s.filtered = has&hasLate != 0, has&hasFilter != 0
	s.settled = has&hasSettled != 0
	s.missing = s.settled
	if has&hasSketch != 0 {
		s.sketch = new(Sketch)
		r.part(uint64(r.Uint16()), s.sketch.UnmarshalBinary)
	}
	if has&hasKnown != 0 {
		s.known = new(Known)
		r.part(uint64(len(r.Left)), s.known.SetRecent)
	}
}

func (g *ring) readSlots(r *reader) {
	for i := range shapes {
		slots := g.of(i)
		full := r.Count(1<<len(slots) - 1)
		for ; full != 0; full &= full - 1 {
			v := r.Count(math.MaxUint32<<1 | 1)
			whole := v&1 == 0
			if v >>= 1; whole {
				v *= fraction
			}
			if v == 0 || v > math.MaxUint32 || whole != (v%fraction == 0) {
				r.Fail()
			}
			slots[bits.TrailingZeros64(full)] = uint32(v)
		}
	}
}
