package simulate

import (
	"cmp"
	"slices"
	"time"

	"weir/throttle/reach"
)

// A Theft is an account that is made to write to new people, to see when it is found. It affects no other figure: the
// user goes on as the log says, and the thief's mails come in between.
type Theft struct {
	// empty: one of those who have written for long enough and are not flagged, neither the busiest nor the most quiet
	User    string
	PerHour float64       // new recipients, one in each mail, at even intervals
	After   time.Duration // from the start of the log; 0: at its end
}

// theftTime is how long a stolen account is watched: for the longest of the windows, a day at least. A thief not found
// in that time is never found.
func (r *ReachReplay) theftTime() time.Duration {
	longest := reach.Day.Length()
	for _, w := range r.columns[0].rules.Options().Windows {
		longest = max(longest, w.Length())
	}
	return longest
}

// A theft is one that is under way.
type theft struct {
	Theft
	number  uint64
	user    *reachUser // nil before it began
	begin   time.Time
	sent    int            // new recipients
	states  []*reach.State // of the columns that have not found it
	found   []int          // with how many new recipients; -1: not yet; 0: flagged before
	after   time.Duration  // … under the first threshold
	ended   bool
	problem string // why it says nothing when it is found
}

func (r *ReachReplay) steal(until time.Time) error {
	for _, t := range r.thefts {
		if t.user == nil && !t.ended && t.After > 0 {
			if begin := r.from.Add(t.After); !until.Before(begin) {
				if err := t.start(r, begin); err != nil {
					return err
				}
			}
		}
		t.run(r, until)
	}
	return nil
}

func (t *theft) start(r *ReachReplay, begin time.Time) error {
	t.found = slices.Repeat([]int{-1}, len(r.columns))
	u := r.users.byName[t.User]
	if t.User == "" {
		var err error
		if u, err = r.victim(t, begin); err != nil {
			return err
		}
	}
	if u == nil || u.shared == nil && u.own == nil {
		t.ended = true
		if t.problem == "" {
			t.problem = "had not written to anybody by then"
		}
		return nil
	}
	t.user, t.begin = u, begin
	t.states = make([]*reach.State, len(r.columns))
	for i := range r.columns {
		s, flagged, err := r.standing(u, i, begin)
		if err != nil {
			return err
		}
		if flagged {
			t.found[i] = 0
			continue
		}
		t.states[i] = s
	}
	if t.states[0] == nil {
		t.problem = flaggedBefore
	}
	return nil
}

const flaggedBefore = "was flagged already"

// standing returns a copy of a user's state at a time under a column, and whether they are flagged.
func (r *ReachReplay) standing(u *reachUser, column int, at time.Time) (*reach.State, bool, error) {
	s, err := cloned(u.state(column))
	if err != nil {
		return nil, false, err
	}
	c := r.columns[column]
	s.Advance(c.rules, &c.usual, at)
	_, _, flagged := s.Flagged()
	return s, flagged, nil
}

// isFlagged reports whether a user is flagged at a time under any threshold. Only users who ever were have states of
// their own.
func (r *ReachReplay) isFlagged(u *reachUser, at time.Time) (bool, error) {
	for i, own := range u.own {
		if own == nil {
			continue
		}
		if _, flagged, err := r.standing(u, i, at); err != nil || flagged {
			return flagged, err
		}
	}
	return false, nil
}

// victim chooses whose account is stolen: of those who are no newcomers and not flagged under any threshold, by the
// number of their recipients, so that several thefts are spread over them. Where there is nobody, the theft says why.
func (r *ReachReplay) victim(t *theft, begin time.Time) (*reachUser, error) {
	learn := r.all.Options().Dynamic.Learn.Std() + r.theftTime()
	var old []*reachUser
	t.problem = "nobody had written for long enough by then"
	for _, u := range r.users.order {
		s := u.state(0)
		if s == nil || begin.Sub(s.Since()) <= learn || r.all.Exempt(u.name) {
			continue
		}
		flagged, err := r.isFlagged(u, begin)
		if err != nil {
			return nil, err
		}
		if flagged {
			t.problem = "all who had written for long enough were flagged already"
			continue
		}
		old = append(old, u)
	}
	if len(old) == 0 {
		return nil, nil
	}
	t.problem = ""
	slices.SortStableFunc(old, func(a, b *reachUser) int { return cmp.Compare(a.state(0).Count(), b.state(0).Count()) })
	return old[(2*int(t.number)+1)*len(old)/(2*len(r.thefts))], nil
}

func (t *theft) run(r *ReachReplay, until time.Time) {
	every, watched := time.Duration(float64(time.Hour)/t.PerHour), r.theftTime()
	for t.user != nil && !t.ended {
		at := t.begin.Add(time.Duration(t.sent) * every)
		switch {
		case at.Sub(t.begin) >= watched ||
			!slices.ContainsFunc(t.states, func(s *reach.State) bool { return s != nil }):
			t.ended, t.states = true, nil
		case at.After(until):
			return
		default:
			t.sent++
			t.commit(r, at, []uint64{mixed(t.number<<32 | uint64(t.sent))})
		}
	}
}

// commit takes a mail of the thief or of the user.
func (t *theft) commit(r *ReachReplay, at time.Time, keys []uint64) {
	for i, s := range t.states {
		if s == nil {
			continue
		}
		c := r.columns[i]
		if v, _ := s.Commit(c.rules, &c.usual, at, keys, nil); !v.Flagged {
			continue
		}
		t.found[i], t.states[i] = t.sent, nil
		if i == 0 {
			t.after = at.Sub(t.begin)
		}
	}
}
