package reach

import (
	"errors"
	"time"
	"unsafe"
)

// ErrNoKnown is returned where the settled part of a state is needed, and SetKnown was not called.
var ErrNoKnown = errors.New("reach: the settled part of the known recipients is missing")

// A Fate is what becomes of one recipient.
type Fate uint8

const (
	Pass   Fate = iota // goes on
	Hold               // hold-new: held until somebody has looked at it
	Refuse             // known-only, block, or over the limit
)

// A Cause says why a recipient does not go on.
type Cause uint8

const (
	NoCause    Cause = iota
	IsNew            // the user is flagged, and the recipient is new to them
	TooMany          // the user is flagged, and has sent as many messages as the limit
	AllBlocked       // the user is flagged
)

// A Verdict is what Judge says about a message as a whole.
type Verdict struct {
	Flagged bool  // the user is flagged, before this message or by it
	Now     bool  // by this message
	New     int   // how many of the recipients are new to the user, as far as is known
	Known   int   // how many are not
	Held    int   // how many are held
	Refused int   // how many are refused
	Cause   Cause // why, where some are
	Figure        // the window that is closest to its threshold, or furthest over it, counting this message
}

// A Figure is how a user stands in a window.
type Figure struct {
	Window Window  `json:"window"`
	New    float64 `json:"new"`   // recipients new to the user, in the window
	Limit  float64 `json:"limit"` // with more than that the user is flagged
}

// A State is what is remembered of one user. The zero value never wrote to anybody. Goroutines must not share it.
//
// Rules may change while it exists: it keeps what it has (a sketch also its number of cells), and begins what they ask
// for in addition. A set of known recipients that is begun when a sketch has counted some already does not know them:
// until it has as many and is a week old, or is 90 days old, who changes nothing in the sketch counts as known.
type State struct {
	history
	meter
}

// Judge says what becomes of each recipient of a message: fates[i] of keys[i], which are keyed hashes, each recipient
// once. It changes nothing; what is due by the clock is reckoned with. fates may be nil. It allocates nothing.
func (s *State) Judge(r *Rules, p *Population, now time.Time, keys []uint64, fates []Fate) Verdict {
	m := s.meter
	x := s.measure(r, p, now, &m, nil)
	j := judge(&s.history, &m, &x, keys, fates, false)
	return j.Verdict
}

// Commit takes a judged message into the history that is accepted, or turned away. fates are what became of its
// recipients: one that passed is known from now on; one that was held or refused counts as an attempt and stays
// unknown. nil: what Judge says. It returns the verdict as Judge does, and what the population learns from.
func (s *State) Commit(r *Rules, p *Population, now time.Time, keys []uint64, fates []Fate) (Verdict, []Sample) {
	var samples []Sample
	x := s.measure(r, p, now, &s.meter, &samples)
	s.prepare(r, s.at)
	var array [128]Fate
	given := fates != nil
	if !given {
		if fates = array[:]; len(keys) > len(array) {
			fates = make([]Fate, len(keys))
		}
	}
	j := judge(&s.history, &s.meter, &x, keys, fates, given)
	before := 0.0
	if j.count == Cells {
		before = s.sketch.Estimate()
	}
	for i, key := range keys {
		if fates[i] == Pass {
			s.history.add(key, j.in(i))
		} else if s.flagged {
			s.history.try(key)
		}
	}
	s.forgetTried()
	if j.count == Cells {
		j.passed = max(s.sketch.Estimate()-before, 0)
	}
	s.ring.add(j.passed + j.tried)
	s.start(s.at)
	return j.Verdict, samples
}

// measure lets the clock of a meter run until now, and returns what its limits are made from.
func (s *State) measure(r *Rules, p *Population, now time.Time, m *meter, samples *[]Sample) measure {
	count := s.count()
	m.pass(seconds(now), count, samples)
	return measure{r: r, p: p, now: now, count: count}
}

func (s *State) forgetTried() {
	if !s.flagged {
		s.tried = nil
	}
}

// Learn makes recipients known without counting them: those that were held, and that somebody let go.
func (s *State) Learn(r *Rules, now time.Time, keys []uint64) {
	s.pass(seconds(now), s.count(), nil)
	s.prepare(r, s.at)
	for _, key := range keys {
		s.history.add(key, false)
	}
	if !s.started {
		s.started, s.since = true, s.at
	}
}

// Advance lets the clock run until now: flags end, windows pass. Judge and Commit do so by themselves.
func (s *State) Advance(r *Rules, p *Population, now time.Time) (ended bool, samples []Sample) {
	x := s.measure(r, p, now, &s.meter, &samples)
	flagged := s.flagged
	judge(&s.history, &s.meter, &x, nil, nil, false)
	s.forgetTried()
	return flagged && !s.flagged, samples
}

// Clear ends a flag because an operator says so, and begins to count anew. Known recipients stay known.
func (s *State) Clear(now time.Time) {
	s.pass(seconds(now), s.count(), nil)
	clear(s.slots[:])
	s.pending = 0
	s.tried = nil
	s.flag = flag{ended: s.at}
}

// SetFlag flags a user because an operator says so, until somebody clears it.
func (s *State) SetFlag(now time.Time) {
	s.pass(seconds(now), s.count(), nil)
	if !s.flagged {
		s.raise(s.at, Figure{})
	}
	s.operator = true
}

// Flagged reports whether the user is flagged, since when, and by which figure: one without a limit where an operator
// did so. A flag that is over is one until Advance, Judge or Commit says otherwise.
func (s *State) Flagged() (since time.Time, by Figure, flagged bool) {
	if !s.flagged {
		return time.Time{}, Figure{}, false
	}
	return instant(s.flagSince), s.by, true
}

// Count is how many different recipients the user has written to, as far as is known.
func (s *State) Count() float64 { return s.count() }

// IsAtLeastFrom says that the account was there at a time, though it may have sent nothing: so an old account is no
// newcomer with its first message. The zero time is long ago.
func (s *State) IsAtLeastFrom(then, now time.Time) {
	s.pass(seconds(now), s.count(), nil)
	if at := min(seconds(then), s.at); !s.started || at < s.since {
		s.started, s.since = true, at
	}
}

// Since is since when the account is known: from the first message, or as IsAtLeastFrom said. It is zero where neither
// was, and where that is long ago.
func (s *State) Since() time.Time {
	if !s.started || s.since == 0 {
		return time.Time{}
	}
	return instant(s.since)
}

// Figures are how the user stands in each window of the rules.
func (s *State) Figures(r *Rules, p *Population, now time.Time) []Figure {
	m := s.meter
	x := s.measure(r, p, now, &m, nil)
	scale := s.scale(r, m.at)
	x.blur = scale.blur()
	return m.figures(&x, nil)
}

// Bytes is how much memory the state takes.
func (s *State) Bytes() int { return int(unsafe.Sizeof(s.meter)) + s.bytes() }

// Merge takes over what another node knows of the same user: registers by their maximum, known recipients together,
// slots by the greater, the earlier beginning, and the later flag. Sketches with different numbers of cells cannot be
// merged (ErrCells), nor states without their settled part (ErrNoKnown), nor Bloom filters that get too full (ErrFull).
func (s *State) Merge(r *Rules, o *State) error {
	err := s.history.merge(&o.history, max(s.at, o.at))
	s.meter.merge(&o.meter)
	return err
}
