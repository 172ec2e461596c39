package reach

import "encoding/binary"

// knownVersion is the first byte of what is stored beside a state. Then comes what there is, the filter with its
// length, and the settled part of the known recipients.
const knownVersion = 1

// What is stored beside a state.
const (
	rowFilter = 1 << iota
	rowSettled
)

// AppendKnown appends what changes rarely: the settled part of the known recipients, and a Bloom filter, which changes
// with every new recipient. It is stored by itself, whenever KnownChanged. It may be nothing. There is no error.
func (s *State) AppendKnown(b []byte) ([]byte, error) {
	if !s.settled || s.missing {
		return b, nil
	}
	has := len(b) + 1
	b = append(b, knownVersion, 0)
	if s.filter != nil {
		b[has] |= rowFilter
		at := len(b)
		b, _ = s.filter.AppendBinary(append(b, 0, 0, 0, 0))
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	if s.known != nil && s.known.Generation() > 0 {
		b[has] |= rowSettled
		b, _ = s.known.AppendSettled(b)
	}
	return b, nil
}

// KnownChanged reports whether AppendKnown appends another thing than at SetKnown or KnownStored.
func (s *State) KnownChanged() bool {
	return !s.missing && (s.unstored || s.known != nil && s.known.Generation() != s.stored)
}

// KnownStored notes that what AppendKnown appends is stored.
func (s *State) KnownStored() {
	s.unstored, s.stored = false, 0
	if s.known != nil {
		s.stored = s.known.Generation()
	}
}

// NeedsKnown reports whether the state has a settled part that SetKnown has not given it yet.
func (s *State) NeedsKnown() bool { return s.missing }

// SetKnown gives the state its settled part, as AppendKnown wrote it: ErrNewer or ErrCorrupt, and the state is as
// before. b is kept and not changed. Where it is lost, an empty b says so: the set is begun anew, as one that the rules
// did not ask for before, and a user without anything else known is a newcomer again.
func (s *State) SetKnown(b []byte) error {
	if len(b) == 0 {
		if s.missing {
			s.lose()
		}
		return nil
	}
	r, err := newReader("known recipients", b, knownVersion)
	if err != nil {
		return err
	}
	has := r.Byte()
	if has == 0 || has > rowFilter|rowSettled {
		r.Fail()
	}
	var filter *Filter
	if has&rowFilter != 0 {
		filter = new(Filter)
		r.part(uint64(r.Uint32()), filter.UnmarshalBinary)
	}
	known := new(Known)
	if s.known != nil {
		*known = *s.known
	}
	if has&rowSettled != 0 {
		if len(r.Left) == 0 {
			r.Fail()
		}
		r.part(uint64(len(r.Left)), known.SetSettled)
	}
	if err := r.end(); err != nil {
		return err
	}
	if s.known != nil || known.Len() > 0 {
		s.known = known
	}
	s.filter, s.filtered = filter, filter != nil
	s.settled, s.missing = true, false
	s.KnownStored()
	return nil
}

// lose goes on without the settled part.
func (s *State) lose() {
	s.missing, s.settled = false, false
	left := s.gap(s.at)
	if s.known != nil {
		s.knownBy.merge(left)
		s.stored = 0
	}
	if s.filtered {
		s.filter, s.filterBy, s.settled, s.unstored = new(Filter), left, true, true
		if left.gap == 0 {
			s.since = s.at
		}
	}
}
