package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/store"
	"weir/throttle/reach"
)

// ConfigureReach says which reach throttles there are from now on, those at gates and those that are only asked. Those
// that are new remember what they have learnt.
func (s *Spool) ConfigureReach(ctx context.Context, list []*Reach) error {
	for _, of := range list {
		if !slices.ContainsFunc(s.reachThrottles(), func(old *Reach) bool { return old.Population == of.Population }) {
			if err := s.loadPopulation(ctx, of); err != nil {
				return err
			}
		}
	}
	s.reaches.Store(&list)
	return nil
}

func (s *Spool) reachThrottles() []*Reach {
	if list := s.reaches.Load(); list != nil {
		return *list
	}
	return nil
}

func (s *Spool) reachNamed(name string) *Reach {
	all := s.reachThrottles()
	if i := slices.IndexFunc(all, func(r *Reach) bool { return r.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// refreshFlagged learns from the store whether a user is flagged.
func (s *Spool) refreshFlagged(throttle, user string) {
	s.flagged.asking.Lock()
	defer s.flagged.asking.Unlock()
	flagged := false
	err := s.store.View(context.Background(), func(tx store.MailTx) error {
		k, err := tx.Sketch(throttle, user)
		flagged = k.Flagged
		if isNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil { // his next mail is judged by the store all the same
		s.log.Error("whether a user is flagged cannot be read", "user", user, "error", err)
		return
	}
	if !s.flagged.set(throttle, user, flagged) {
		s.tell.Bounded(BoundFlagged)
	}
}

// learnFlagged learns from the store who is flagged.
func (s *Spool) learnFlagged(ctx context.Context) error {
	return s.store.View(ctx, func(tx store.MailTx) error {
		return eachFlagged(tx, func(k store.Sketch) (bool, error) {
			if !s.flagged.set(k.Throttle, k.User, true) {
				s.tell.Bounded(BoundFlagged)
				return false, nil
			}
			return true, nil
		})
	})
}

// eachFlagged goes over everybody who is flagged, for as long as do returns true.
func eachFlagged(tx store.MailTx, do func(store.Sketch) (bool, error)) error {
	const page = 1000
	var throttle, user string
	for {
		list, err := tx.Flagged(throttle, user, page)
		if err != nil {
			return err
		}
		for _, k := range list {
			if more, err := do(k); err != nil || !more {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
		throttle, user = list[page-1].Throttle, list[page-1].User
	}
}

// CountFlagged is how many users are flagged by throttles that there are, and not in shadow, as far as they are known
// without asking the store.
func (s *Spool) CountFlagged() (n int) {
	s.flagged.mu.RLock()
	defer s.flagged.mu.RUnlock()
	for u := range s.flagged.in {
		if of := s.reachNamed(u.throttle); of != nil && !of.inShadow() {
			n++
		}
	}
	return n
}

// unflagEvery is how often it is looked whose flag is over. Nobody is refused for one that is, whether somebody has
// looked or not.
const unflagEvery = time.Minute

// unflagDue ends flags that are over.
func (s *Spool) unflagDue(ctx context.Context, now time.Time) error {
	s.unflagging.Lock()
	defer s.unflagging.Unlock()
	if !s.flagged.any() || now.Sub(s.unflagging.at).Abs() < unflagEvery {
		return nil
	}
	s.unflagging.at = now
	var over []stoppedUser
	err := s.store.View(ctx, func(tx store.MailTx) error {
		over = nil
		return eachFlagged(tx, func(k store.Sketch) (bool, error) {
			of := s.reachNamed(k.Throttle)
			if of == nil {
				return true, nil
			}
			c, err := s.meet(tx, now, of, k.User)
			if err != nil {
				return true, nil // others are not to wait for it
			}
			c.sketch.state.Advance(of.Rules, of.Population, now)
			if _, _, flagged := c.sketch.state.Flagged(); !flagged {
				over = append(over, stoppedUser{k.Throttle, k.User})
			}
			return len(over) < dueBatch, nil
		})
	})
	if err != nil {
		return err
	}
	for _, u := range over {
		if err := s.actReach(ctx, now, u.throttle, u.user, func(c *meeting) error {
			_, c.samples = c.sketch.state.Advance(c.of.Rules, c.of.Population, now)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// actReach does something to what a reach throttle knows of a user.
func (s *Spool) actReach(ctx context.Context, now time.Time, throttle, user string, do func(*meeting) error) error {
	of := s.reachNamed(throttle)
	if of == nil {
		return fmt.Errorf("there is no reach throttle %q: %w", throttle, ErrUnknown)
	}
	var r reached
	err := s.update(ctx, func(tx store.MailTx) error {
		r = reached{}
		c, err := s.meet(tx, now, of, user)
		if err != nil {
			return err
		}
		if err := do(c); err != nil {
			return err
		}
		if err := c.store(); err != nil {
			return err
		}
		r = c.end()
		r.judged, r.changed = false, true
		return nil
	})
	if err == nil {
		s.settleReach(r)
	}
	return err
}

// ClearReach ends the flag of a user because an operator says so, and begins to count anew. Who is known stays known,
// and what is withheld stays so.
func (s *Spool) ClearReach(ctx context.Context, now time.Time, by, throttle, user string) error {
	return s.actReach(ctx, now, throttle, user, func(c *meeting) error {
		c.sketch.state.Clear(now)
		if !c.was {
			return nil
		}
		c.was = false // it is noted here
		return c.note(by, "unflagged", "cleared")
	})
}

// FlagReach flags a user because an operator says so, until somebody clears it.
func (s *Spool) FlagReach(ctx context.Context, now time.Time, by, throttle, user string) error {
	return s.actReach(ctx, now, throttle, user, func(c *meeting) error {
		c.sketch.state.SetFlag(now)
		if c.was {
			return c.note(by, "flagged", "by hand, beside the flag that holds: it stays until somebody clears it")
		}
		c.was = true // it is noted here
		// A state keeps whole seconds, and its clock may be ahead of this one.
		c.since, _, _ = c.sketch.state.Flagged()
		return c.note(by, "flagged", "by hand")
	})
}

// A ReachStanding is how a user stands with a reach throttle.
type ReachStanding struct {
	Throttle string         `json:"throttle"`
	User     string         `json:"user"`
	Flagged  bool           `json:"flagged"`
	Shadow   bool           `json:"shadow,omitempty"` // he only would be
	Since    time.Time      `json:"since,omitzero"`   // flagged
	Why      string         `json:"why,omitempty"`
	Holds    string         `json:"holds,omitempty"` // what holds for him
	Exempt   bool           `json:"exempt,omitempty"`
	Count    float64        `json:"recipients"` // different ones, as far as one can tell
	First    time.Time      `json:"first,omitzero"`
	Figures  []reach.Figure `json:"windows"`
	Bytes    int            `json:"bytes"` // that are kept of him
	Problem  string         `json:"problem,omitempty"`
}

func (s *Spool) reachStanding(tx store.MailTx, now time.Time, of *Reach, user string) ReachStanding {
	one := ReachStanding{Throttle: of.Name, User: user, Shadow: of.inShadow(), Exempt: of.Rules.Exempt(user)}
	c, err := s.meet(tx, now, of, user)
	if err != nil {
		one.Problem = err.Error()
		return one
	}
	st := &c.sketch.state
	st.Advance(of.Rules, of.Population, now) // nothing of it is stored
	var by reach.Figure
	one.Since, by, one.Flagged = st.Flagged()
	if one.Flagged {
		one.Why, one.Holds = figureText(by), holds(of.Rules, of.Rules.Options().Over)
	}
	one.Count, one.First, one.Figures, one.Bytes = st.Count(), st.Since(), st.Figures(of.Rules, of.Population, now),
		st.Bytes()
	return one
}

// ReachStandings says how a user stands with each reach throttle that knows him.
func (s *Spool) ReachStandings(ctx context.Context, now time.Time, user string) (list []ReachStanding, err error) {
	err = s.store.View(ctx, func(tx store.MailTx) error {
		list = nil
		for _, of := range s.reachThrottles() {
			if _, err := tx.Sketch(of.Name, user); isNotFound(err) {
				continue
			} else if err != nil {
				return err
			}
			list = append(list, s.reachStanding(tx, now, of, user))
		}
		return nil
	})
	return list, err
}

// FlaggedUsers says who is flagged, or would be if the throttle were not in shadow, up to limit.
func (s *Spool) FlaggedUsers(ctx context.Context, now time.Time, limit int) (list []ReachStanding, err error) {
	err = s.store.View(ctx, func(tx store.MailTx) error {
		list = nil
		return eachFlagged(tx, func(k store.Sketch) (bool, error) {
			if of := s.reachNamed(k.Throttle); of != nil {
				if one := s.reachStanding(tx, now, of, k.User); one.Flagged || one.Problem != "" {
					list = append(list, one)
				}
			}
			return len(list) < limit, nil
		})
	})
	return list, err
}

// loadPopulation reads what a reach throttle has learnt of all its users together. What cannot be read is learnt anew.
func (s *Spool) loadPopulation(ctx context.Context, of *Reach) error {
	return s.store.View(ctx, func(tx store.MailTx) error {
		k, err := tx.Sketch(of.Name, "")
		if isNotFound(err) {
			return nil
		}
		if err == nil {
			err = of.Population.UnmarshalBinary(k.State)
		}
		if err != nil {
			s.log.Error("what a reach throttle has learnt cannot be read; it begins anew", "throttle", of.Name, "error",
				err)
		}
		return nil
	})
}

// savePopulations stores what reach throttles have learnt of all their users together.
func (s *Spool) savePopulations(ctx context.Context) error {
	all := s.reachThrottles()
	if len(all) == 0 {
		return nil
	}
	return s.update(ctx, func(tx store.MailTx) error {
		for _, of := range all {
			b, err := of.Population.AppendBinary(nil)
			if err != nil {
				return err
			}
			if err := tx.PutSketch(store.Sketch{Throttle: of.Name, State: b}); err != nil {
				return err
			}
		}
		return nil
	})
}
