package simulate

import (
	"cmp"
	"slices"
	"time"

	"weir/reach"
)

// A Theft is an account that is made to write to new people, to see when it is found. What happens to it then is in no other figure: the
// user himself goes on beside it as the log says, and the thief has his mails in between.
type Theft struct {
	User    string        // empty: one of those who have written for long enough, neither the busiest nor the most quiet
	PerHour float64       // new recipients, one in each mail, at even intervals
	After   time.Duration // from the start of the log; 0: at its end
}

// theftTime is how long an account is watched after it was stolen.
const theftTime = 24 * time.Hour

// A theft is one that is under way.
type theft struct {
	Theft
	number  uint64
	user    *reachUser // nil before it began
	begin   time.Time
	sent    int            // new recipients
	states  []*reach.State // of the columns that have not found it
	found   []int          // with how many new recipients; -1: not yet
	after   time.Duration  // … under the first threshold
	ended   bool
	problem string // why there was nothing to steal
}

// steal lets the thieves write until a time.
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

// start steals the account.
func (t *theft) start(r *ReachReplay, begin time.Time) error {
	t.found = slices.Repeat([]int{-1}, len(r.columns))
	u := r.users[t.User]
	if t.User == "" {
		u = r.victim(t, begin)
	}
	if u == nil || u.together == nil && u.own == nil {
		t.ended, t.problem = true, "had not written to anybody by then"
		if t.User == "" {
			t.problem = "nobody had written for long enough by then"
		}
		return nil
	}
	t.user, t.begin = u, begin
	t.states = make([]*reach.State, len(r.columns))
	for i, c := range r.columns {
		s, err := cloned(u.state(i))
		if err != nil {
			return err
		}
		s.Advance(c.rules, &c.usual, begin)
		if _, _, flagged := s.Flagged(); flagged {
			t.found[i] = 0
			continue
		}
		t.states[i] = s
	}
	return nil
}

// victim chooses whose account is stolen: of those who are no newcomers any more by the number of their recipients, so that several
// thefts are spread over them.
func (r *ReachReplay) victim(t *theft, begin time.Time) *reachUser {
	learn := r.all.Options().Dynamic.Learn.Std() + reach.Day.Length()
	var old []*reachUser
	for _, u := range r.order {
		if s := u.state(0); s != nil && begin.Sub(s.Since()) > learn && !r.all.Exempt(u.name) {
			old = append(old, u)
		}
	}
	slices.SortStableFunc(old, func(a, b *reachUser) int { return cmp.Compare(a.state(0).Count(), b.state(0).Count()) })
	if len(old) == 0 {
		return nil
	}
	return old[(2*int(t.number)+1)*len(old)/(2*len(r.thefts))]
}

// run sends the mails that are due.
func (t *theft) run(r *ReachReplay, until time.Time) {
	every := time.Duration(float64(time.Hour) / t.PerHour)
	for t.user != nil && !t.ended {
		at := t.begin.Add(time.Duration(t.sent) * every)
		switch {
		case at.Sub(t.begin) >= theftTime || !slices.ContainsFunc(t.states, func(s *reach.State) bool { return s != nil }):
			t.ended, t.states = true, nil
		case at.After(until):
			return
		default:
			t.sent++
			t.commit(r, at, []uint64{mixed(t.number<<32 | uint64(t.sent))})
		}
	}
}

// commit takes a mail of the thief or of the user himself.
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
