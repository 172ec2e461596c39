package stamp

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Use is one request that a stamp pays for.
type Use struct {
	Nonce   Nonce
	Expires time.Time // of the challenge
	// of the challenge; only another node of the farm needs it
	Lifetime time.Duration
	Covers   int    // how many requests the stamp may pay for; at least 1
	Mark     uint64 // of the whole stamp as it came
}

// A Ledger remembers which stamps are spent: the Filter, or one that a farm shares. All of its methods are atomic.
type Ledger interface {
	// Look returns how often a stamp was used, and the mark that it was first used under.
	Look(ctx context.Context, now time.Time, u Use) (uses int, mark uint64, err error)
	// Spend uses a stamp once more and returns how often it has been used, ErrReplayed, or ErrFull: no memory for it.
	Spend(ctx context.Context, now time.Time, u Use) (uses int, err error)
	// Refund takes one use back, for a request that did not go on.
	Refund(ctx context.Context, now time.Time, u Use) error
}

const (
	stripes = 64
	maxRuns = 8
)

// A Filter remembers the stamps that were spent here, exactly, by their nonces. A nonce is kept for as long as its
// challenge could be accepted: in one of two generations that are dropped whole. Their number is bounded; when it is
// full, nothing more is accepted. It is safe for concurrent use; make it with NewFilter.
//
// A clock may jump ahead and come back. A jump cannot be told from a long silence, so each stretch of time without a
// gap is a run with its own memory, and a look-up goes to the run of its time. The memory of one run is dropped when
// another has gone on for so long that those stamps have expired. What was dropped is never accepted again.
type Filter struct {
	ttl    int64 // milliseconds in a generation
	most   int64
	count  atomic.Int64
	swept  atomic.Int64 // the generation that the last sweep was for
	stripe [stripes]stripe
}

type stripe struct {
	mu   sync.Mutex
	runs []run    // by their time, at most maxRuns
	_    [32]byte // a cache line of its own
}

// A run is a stretch of time, in generations, in which the clock made no jump.
type run struct {
	from, to int64
	// spent are the stamps that expire in the generation to, and in the one after it. Earlier ones are forgotten.
	spent [2]map[Nonce]spent
}

type spent struct {
	mark uint64
	uses uint32
}

// NewFilter makes a filter for challenges that live for at most ttl. It remembers at most so many stamps.
func NewFilter(ttl time.Duration, most int) *Filter {
	f := &Filter{ttl: max(ttl.Milliseconds(), 1), most: int64(most)}
	runs := make([]run, stripes) // one for each stripe: there are more only where the clock jumps
	for i := range f.stripe {
		f.stripe[i].runs = runs[i : i : i+1]
	}
	return f
}

// open locks the stripe of a stamp and returns the generation that it belongs to.
func (f *Filter) open(now time.Time, u *Use) (*stripe, *map[Nonce]spent, error) {
	s := &f.stripe[u.Nonce[nonceBytes-1]%stripes] // the beginning names the issuer, in a farm
	s.mu.Lock()
	r := f.runOf(s, now.UnixMilli())
	switch at := u.Expires.UnixMilli() - r.to*f.ttl; {
	case 0 <= at && at < f.ttl:
		return s, &r.spent[0], nil
	case f.ttl <= at && at < 2*f.ttl:
		return s, &r.spent[1], nil
	default:
		s.mu.Unlock()
		if at < 0 {
			// Also when the clock was set back a little: what is forgotten cannot be told from what is new.
			return nil, nil, ErrExpired
		}
		// It was issued under options that let it live longer than stamps are remembered, or by a clock that is ahead.
		return nil, nil, ErrForeign
	}
}

// runOf returns the run that a time in milliseconds belongs to. That is nearly always the generation that the latest
// run has come to, and is found without a division. The stripe is locked.
func (f *Filter) runOf(s *stripe, now int64) *run {
	if n := len(s.runs); n > 0 {
		r := &s.runs[n-1]
		if since := now - r.to*f.ttl; 0 <= since && since < f.ttl {
			return r
		}
	}
	return f.runAt(s, floorDiv(now, f.ttl))
}

// runAt returns the run that a generation belongs to, and brings it up to date. The stripe is locked.
//
// A stamp that is good in a generation expires in it or in the next. So a run may know of stamps that are good one
// generation before it begins and after it ends. Where two runs meet, the later one forgot what the earlier knows.
func (f *Filter) runAt(s *stripe, now int64) *run {
	for i := len(s.runs) - 1; i >= 0; i-- {
		r := &s.runs[i]
		if now < r.from-1 || now > r.to+1 {
			continue
		}
		if now > r.to {
			f.advance(r, now)
			if r.to-r.from > 1 { // a whole generation has passed
				f.forgetOthers(s, i)
			}
		}
		return r
	}
	i, _ := slices.BinarySearchFunc(s.runs, now, func(r run, now int64) int { return cmp.Compare(r.from, now) })
	s.runs = slices.Insert(s.runs, i, run{from: now, to: now})
	if len(s.runs) > maxRuns {
		f.merge(s)
		return f.runAt(s, now)
	}
	return &s.runs[i]
}

// advance drops what expires before a generation.
func (f *Filter) advance(r *run, to int64) {
	f.count.Add(-int64(len(r.spent[0])))
	if to == r.to+1 {
		r.spent[0], r.spent[1] = r.spent[1], nil
	} else {
		f.count.Add(-int64(len(r.spent[1])))
		r.spent[0], r.spent[1] = nil, nil
	}
	r.to = to
}

// forgetOthers drops what all runs but one know. None of that is accepted any more.
func (f *Filter) forgetOthers(s *stripe, keep int) {
	for i := range s.runs {
		if r := &s.runs[i]; i != keep && len(r.spent[0])+len(r.spent[1]) > 0 {
			f.advance(r, r.to+2)
		}
	}
}

// merge makes one of the two runs that are nearest. What the earlier knows and what lies between is forgotten.
func (f *Filter) merge(s *stripe) {
	at := 0
	for i := range s.runs[1:] {
		if s.runs[i+1].from-s.runs[i].to < s.runs[at+1].from-s.runs[at].to {
			at = i
		}
	}
	f.advance(&s.runs[at], s.runs[at].to+2)
	s.runs[at+1].from = s.runs[at].from
	s.runs = slices.Delete(s.runs, at, at+1)
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
	uses, err := f.spendIn(in, u)
	s.mu.Unlock()
	return uses, err
}

// spendIn is spend in a generation. The stripe is locked.
func (f *Filter) spendIn(in *map[Nonce]spent, u *Use) (int, error) {
	e, known := (*in)[u.Nonce]
	if known && int(e.uses) >= max(u.Covers, 1) {
		return int(e.uses), ErrReplayed
	}
	if !known && !f.admit(in) {
		return 0, ErrFull
	}
	if e.mark == 0 { // it is new, or was used at other nodes only
		e.mark = u.Mark
	}
	e.uses++
	(*in)[u.Nonce] = e
	return int(e.uses), nil
}

// admit makes room for one more stamp. The stripe is locked.
func (f *Filter) admit(in *map[Nonce]spent) bool {
	if f.count.Add(1) > f.most {
		f.count.Add(-1)
		return false
	}
	if *in == nil {
		*in = map[Nonce]spent{}
	}
	return true
}

// note remembers that a stamp was used at least so often. It is for what is only good to know: where there is no room,
// it does nothing.
func (f *Filter) note(now time.Time, u *Use, uses uint32) {
	if !f.tryNote(now, u, uses) && f.sweep(now) {
		f.tryNote(now, u, uses)
	}
}

func (f *Filter) tryNote(now time.Time, u *Use, uses uint32) bool {
	s, in, err := f.open(now, u)
	if err != nil {
		return true
	}
	defer s.mu.Unlock()
	e, known := (*in)[u.Nonce]
	if !known && !f.admit(in) {
		return false
	}
	if e.mark == 0 {
		e.mark = u.Mark
	}
	e.uses = max(e.uses, uses)
	(*in)[u.Nonce] = e
	return true
}

// forget forgets a stamp.
func (f *Filter) forget(now time.Time, u *Use) {
	s, in, err := f.open(now, u)
	if err != nil {
		return
	}
	defer s.mu.Unlock()
	if _, known := (*in)[u.Nonce]; known {
		delete(*in, u.Nonce)
		f.count.Add(-1)
	}
}

// Refund gives one use back, for a request that did not go on.
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

// sweep drops what has expired everywhere, once in a generation, and reports whether it did.
func (f *Filter) sweep(now time.Time) bool {
	at := floorDiv(now.UnixMilli(), f.ttl)
	if last := f.swept.Load(); last == at || !f.swept.CompareAndSwap(last, at) {
		return false
	}
	for i := range f.stripe {
		s := &f.stripe[i]
		s.mu.Lock()
		r := f.runAt(s, at)
		f.forgetOthers(s, slices.IndexFunc(s.runs, func(other run) bool { return other.from == r.from }))
		s.mu.Unlock()
	}
	return true
}

// Len is how many stamps are remembered, those included that expired since the last look at their part of the filter.
func (f *Filter) Len() int { return int(f.count.Load()) }

// TTL is how long a challenge may live to be remembered.
func (f *Filter) TTL() time.Duration { return time.Duration(f.ttl) * time.Millisecond }

var _ Ledger = (*Filter)(nil)
