package stamp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Use is one request that a stamp pays for.
type Use struct {
	Nonce   Nonce
	Expires time.Time // of the challenge
	Covers  int       // how many requests the stamp may pay for; at least 1
	Mark    uint64    // of the whole stamp as it came
}

// A Ledger remembers which stamps are spent. The Filter is one; the nodes of a farm share another. All of its methods are atomic.
type Ledger interface {
	// Look returns how often a stamp was used, and the mark that it was first used under.
	Look(ctx context.Context, now time.Time, u Use) (uses int, mark uint64, err error)
	// Spend uses a stamp once more and returns how often it has been used. ErrReplayed when that is as often as it may be,
	// ErrFull when there is no room to remember it.
	Spend(ctx context.Context, now time.Time, u Use) (uses int, err error)
	// Refund takes one use back, for a request that did not go on.
	Refund(ctx context.Context, now time.Time, u Use) error
}

const stripes = 64

// A Filter remembers the stamps that were spent here, exactly, by their nonces. A nonce is kept for as long as its challenge could
// be accepted: in one of two generations, by when the challenge expires, that are dropped whole. Their number is bounded; when there
// is no room, nothing more is accepted. It is safe for concurrent use; make it with NewFilter.
type Filter struct {
	ttl    int64 // milliseconds in a generation
	most   int64
	count  atomic.Int64
	swept  atomic.Int64 // the generation that the last sweep was for
	stripe [stripes]stripe
}

type stripe struct {
	mu   sync.Mutex
	base int64 // the generation of spent[0]
	// spent are the stamps that expire in the generation base, and in the one after it.
	spent [2]map[Nonce]spent
	_     [24]byte // a cache line of its own
}

type spent struct {
	mark uint64
	uses uint32
}

// NewFilter makes a filter for challenges that live for at most ttl. It remembers at most so many stamps.
func NewFilter(ttl time.Duration, most int) *Filter {
	return &Filter{ttl: max(ttl.Milliseconds(), 1), most: int64(most)}
}

// open locks the stripe of a stamp and returns the generation that it belongs to.
func (f *Filter) open(now time.Time, u *Use) (*stripe, *map[Nonce]spent, error) {
	s := &f.stripe[u.Nonce[0]%stripes]
	s.mu.Lock()
	f.advance(s, floorDiv(now.UnixMilli(), f.ttl))
	switch at := floorDiv(u.Expires.UnixMilli(), f.ttl) - s.base; at {
	case 0, 1:
		return s, &s.spent[at], nil
	default:
		s.mu.Unlock()
		if at < 0 {
			return nil, nil, ErrExpired // also when the clock was set back: what is forgotten cannot be told from what is new
		}
		return nil, nil, ErrForeign // issued under options that let it live longer than it is remembered
	}
}

// advance drops what has expired. The stripe is locked.
func (f *Filter) advance(s *stripe, to int64) {
	if to <= s.base {
		return
	}
	f.count.Add(-int64(len(s.spent[0])))
	if to == s.base+1 {
		s.spent[0], s.spent[1] = s.spent[1], nil
	} else {
		f.count.Add(-int64(len(s.spent[1])))
		s.spent[0], s.spent[1] = nil, nil
	}
	s.base = to
}

// Look returns how often a stamp was used, and the mark that it was first used under.
func (f *Filter) Look(_ context.Context, now time.Time, u Use) (int, uint64, error) {
	s, in, err := f.open(now, &u)
	if err != nil {
		return 0, 0, err
	}
	e := (*in)[u.Nonce]
	s.mu.Unlock()
	return int(e.uses), e.mark, nil
}

// Spend uses a stamp once more and returns how often it has been used.
func (f *Filter) Spend(_ context.Context, now time.Time, u Use) (int, error) {
	uses, err := f.spend(now, &u)
	if err == ErrFull && f.sweep(now) {
		return f.spend(now, &u)
	}
	return uses, err
}

func (f *Filter) spend(now time.Time, u *Use) (int, error) {
	s, in, err := f.open(now, u)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	e, known := (*in)[u.Nonce]
	if known && int(e.uses) >= max(u.Covers, 1) {
		return int(e.uses), ErrReplayed
	}
	if !known {
		if f.count.Add(1) > f.most {
			f.count.Add(-1)
			return 0, ErrFull
		}
		if *in == nil {
			*in = map[Nonce]spent{}
		}
		e.mark = u.Mark
	}
	e.uses++
	(*in)[u.Nonce] = e
	return int(e.uses), nil
}

// Refund takes one use back, for a request that did not go on.
func (f *Filter) Refund(_ context.Context, now time.Time, u Use) error {
	s, in, err := f.open(now, &u)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, known := (*in)[u.Nonce]
	switch {
	case !known:
	case e.uses > 1:
		e.uses--
		(*in)[u.Nonce] = e
	default:
		delete(*in, u.Nonce)
		f.count.Add(-1)
	}
	return nil
}

// sweep drops what has expired everywhere, and reports whether that had not been done in this generation.
func (f *Filter) sweep(now time.Time) bool {
	to := floorDiv(now.UnixMilli(), f.ttl)
	if last := f.swept.Load(); last >= to || !f.swept.CompareAndSwap(last, to) {
		return false
	}
	for i := range f.stripe {
		s := &f.stripe[i]
		s.mu.Lock()
		f.advance(s, to)
		s.mu.Unlock()
	}
	return true
}

// Len is how many stamps are remembered, those included that expired since the last look at their part of the filter.
func (f *Filter) Len() int { return int(f.count.Load()) }

// TTL is how long a challenge may live to be remembered.
func (f *Filter) TTL() time.Duration { return time.Duration(f.ttl) * time.Millisecond }

var _ Ledger = (*Filter)(nil)
