package outbreak

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/stored"
)

// Errors of UnmarshalBinary.
var (
	ErrFormat  = errors.New("mail: not a state")
	ErrVersion = errors.New("mail: a state of another version")
)

// version is the first byte of a state. Then come the flags, the times that there are, the credit spent, the working
// set, and the queue: in runs of one mail, because the recipients of a mail stand together.
const version = 1

// The flags. A state has one form only, so that equal states are equal bytes.
const (
	flagStarted byte = 1 << iota
	flagStopped
	flagOperator
	flagSlow
	flagMulti // the clock of mails to several shows another time
	flagNulls // there were messages without a sender
	flagEvery // the periods of the clocks are known
	flagsAll  = 1<<iota - 1
)

// AppendBinary appends the state as bytes that UnmarshalBinary reads. There is no error.
func (s *State) AppendBinary(b []byte) ([]byte, error) {
	var flags byte
	for i, set := range []bool{ // in the order of the flags
		s.started, s.stopped, s.operator, s.slow, s.multi != s.last, s.nulls != 0, s.every[0] != 0,
	} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, version, flags)
	if s.started {
		b = binary.BigEndian.AppendUint64(b, uint64(s.last))
	}
	if s.multi != s.last {
		b = binary.BigEndian.AppendUint64(b, uint64(s.multi))
	}
	if s.stopped {
		b = binary.BigEndian.AppendUint64(b, uint64(s.since))
	}
	if s.nulls != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(s.nulls))
	}
	if s.every[0] != 0 {
		multi := uint64(s.every[1])
		if s.every[1] == s.every[0] {
			multi = 0
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.every[0])), multi)
	}
	b = binary.AppendUvarint(b, uint64(s.spent))
	b = binary.AppendUvarint(b, uint64(s.mSpent))
	b = binary.AppendUvarint(b, uint64(len(s.set)))
	for _, key := range s.set {
		b = binary.BigEndian.AppendUint64(b, key)
	}
	b = binary.AppendUvarint(b, uint64(len(s.queue)))
	for rest := s.queue; len(rest) > 0; {
		n := run(rest)
		head := uint64(n) << 1
		if rest[0].Single {
			head |= 1
		}
		b = binary.AppendUvarint(b, head)
		b = binary.BigEndian.AppendUint64(b, rest[0].Mail)
		for _, it := range rest[:n] {
			b = binary.AppendUvarint(b, uint64(it.Number))
			b = binary.BigEndian.AppendUint64(b, it.Key)
		}
		rest = rest[n:]
	}
	return b, nil
}

// run is how many at the head of a queue are of one mail.
func run(queue []Item) int {
	for i, it := range queue {
		if it.Mail != queue[0].Mail || it.Single != queue[0].Single {
			return i
		}
	}
	return len(queue)
}

// MarshalBinary returns the state as bytes that UnmarshalBinary reads.
func (s *State) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary reads what AppendBinary wrote, and nothing else: ErrVersion or ErrFormat, and the state is as before.
func (s *State) UnmarshalBinary(b []byte) error {
	if len(b) > 0 && b[0] != version {
		return fmt.Errorf("%w: %d instead of %d", ErrVersion, b[0], version)
	}
	r := reader{stored.Reader{Left: b}}
	read, ok := r.state()
	if !ok || r.Bad || len(r.Left) > 0 {
		return fmt.Errorf("%w (%d bytes)", ErrFormat, len(b))
	}
	*s = read
	return nil
}

// state reads a state. What no state can be is not ok.
func (r *reader) state() (s State, ok bool) {
	r.Take(1) // the version
	flags := r.Byte()
	s.started, s.stopped = flags&flagStarted != 0, flags&flagStopped != 0
	s.operator, s.slow = flags&flagOperator != 0, flags&flagSlow != 0
	if s.started {
		s.last = r.time()
	}
	s.multi = s.last
	if flags&flagMulti != 0 {
		s.multi = r.time()
		ok = s.started && s.multi != s.last
	} else {
		ok = true
	}
	if s.stopped {
		s.since = r.time()
	}
	if flags&flagNulls != 0 {
		s.nulls = r.time()
		ok = ok && s.nulls != 0
	}
	if flags&flagEvery != 0 {
		s.every = [2]int64{int64(r.Count(never)), int64(r.Count(never))}
		ok = ok && s.started && s.every[0] != 0 && s.every[0] != s.every[1]
		if s.every[1] == 0 {
			s.every[1] = s.every[0]
		}
	}
	s.spent, s.mSpent = int32(r.Count(MaxCredit)), int32(r.Count(MaxCredit))
	if n := r.sized(MaxWorkingSet, 8); n > 0 {
		s.set = make([]uint64, n)
		for i := range s.set {
			s.set[i] = r.Uint64()
		}
	}
	if n := r.sized(MaxItems, 9); n > 0 {
		s.queue = make([]Item, 0, n)
		ok = r.items(&s.queue, n) && ok
	}
	return s, ok && flags&^flagsAll == 0 && (s.stopped || !s.operator) &&
		(!s.slow || s.started && !s.stopped) &&
		(s.started || s.spent == 0 && s.mSpent == 0 && s.set == nil && s.queue == nil) &&
		distinct(s.set)
}

func (r *reader) items(queue *[]Item, n int) bool {
	for len(*queue) < n && !r.Bad {
		head := r.Count(MaxItems<<1 | 1)
		it := Item{Mail: r.Uint64(), Single: head&1 != 0}
		in, end := int(head>>1), len(*queue)
		if in == 0 || in > n-end {
			return false
		}
		// Neighbours of one mail are one run.
		if end > 0 && (*queue)[end-1].Mail == it.Mail && (*queue)[end-1].Single == it.Single {
			return false
		}
		for range in {
			number := int64(r.Count(math.MaxUint64))
			it.Number, it.Key = int(number), r.Uint64()
			if r.Bad || int64(it.Number) != number {
				return false
			}
			*queue = append(*queue, it)
		}
	}
	return !r.Bad
}

// distinct reports whether nobody is in a working set twice.
func distinct(set []uint64) bool {
	if len(set) < 16 {
		for i, key := range set {
			if slices.Contains(set[:i], key) {
				return false
			}
		}
		return true
	}
	sorted := slices.Clone(set)
	slices.Sort(sorted)
	return len(slices.Compact(sorted)) == len(set)
}

// A reader reads a state.
type reader struct{ stored.Reader }

// time reads a time that nanos could have made.
func (r *reader) time() int64 {
	t := r.Uint64()
	if t >= never {
		r.Fail()
		return 0
	}
	return int64(t)
}

// sized reads how many things follow, each of at least so many bytes: no memory is taken for what is not there.
func (r *reader) sized(most, each uint64) int {
	n := r.Count(most)
	if n > uint64(len(r.Left))/each {
		r.Fail()
		return 0
	}
	return int(n)
}
