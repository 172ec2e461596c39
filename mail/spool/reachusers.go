package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/store"
	"weir/throttle/reach"
)

// A reaches is what reach throttles know of users: throttles of gates, and those that clients of the API ask.
type reaches struct {
	*env
	delivery   *delivery
	reaches    atomic.Pointer[[]*Reach]
	flagged    userSet
	unflagging struct {
		sync.Mutex
		at time.Time
	}
}

// ConfigureReach says which reach throttles there are from now on. New ones read the population that they have learnt.
func (r *reaches) ConfigureReach(ctx context.Context, list []*Reach) error {
	for _, of := range list {
		if !slices.ContainsFunc(r.reachThrottles(), func(old *Reach) bool { return old.Population == of.Population }) {
			if err := r.loadPopulation(ctx, of); err != nil {
				return err
			}
		}
	}
	r.reaches.Store(&list)
	return nil
}

func (r *reaches) reachThrottles() []*Reach {
	if list := r.reaches.Load(); list != nil {
		return *list
	}
	return nil
}

func (r *reaches) reachNamed(name string) *Reach {
	all := r.reachThrottles()
	if i := slices.IndexFunc(all, func(r *Reach) bool { return r.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// flaggedNow reports whether a user is flagged at a time. Nothing is stored.
func (r *reaches) flaggedNow(tx store.MailTx, now time.Time, of *Reach, user string) (bool, error) {
	c, err := r.open(tx, now, of, user)
	if err != nil {
		return false, err
	}
	c.sketch.state.Advance(of.Rules, of.Population, now)
	_, _, flagged := c.sketch.state.Flagged()
	return flagged, nil
}

// CountFlagged is how many users in memory are flagged by throttles that exist and are not in shadow.
func (r *reaches) CountFlagged() (n int) {
	for _, u := range r.flagged.all() {
		if of := r.reachNamed(u.throttle); of != nil && !of.inShadow() {
			n++
		}
	}
	return n
}

// unflagEvery is how often flags that are over are removed. They refuse nothing in the meantime.
const unflagEvery = time.Minute

func (r *reaches) unflagDue(ctx context.Context, now time.Time) error {
	r.unflagging.Lock()
	defer r.unflagging.Unlock()
	if r.flagged.len() == 0 || now.Sub(r.unflagging.at).Abs() < unflagEvery {
		return nil
	}
	r.unflagging.at = now
	over, err := read(ctx, r.env, func(tx store.MailTx) (over []throttleUser, err error) {
		err = r.flagged.each(tx, func(k throttleUser) bool {
			// A damaged sketch must not hold up the others.
			if of := r.reachNamed(k.throttle); of != nil {
				if flagged, err := r.flaggedNow(tx, now, of, k.user); err == nil && !flagged {
					over = append(over, k)
				}
			}
			return len(over) < dueBatch
		})
		return over, err
	})
	if err != nil {
		return err
	}
	for _, u := range over {
		if err := r.setFlag(ctx, now, u.throttle, u.user, func(c *reachTx) error {
			_, c.samples = c.sketch.state.Advance(c.of.Rules, c.of.Population, now)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// change changes what a reach throttle knows of a user. The observer is not told a verdict.
func (r *reaches) change(ctx context.Context, now time.Time, of *Reach, user string, do func(*reachTx) error) error {
	var c *reachTx
	err := r.update(ctx, func(tx store.MailTx) (err error) {
		if c, err = r.open(tx, now, of, user); err != nil {
			return err
		}
		c.quiet = true
		if err := do(c); err != nil {
			return err
		}
		return c.store()
	})
	if err == nil {
		r.settleReach(c)
	}
	return err
}

// setFlag changes the flag of a user of a named throttle.
func (r *reaches) setFlag(ctx context.Context, now time.Time, throttle, user string, do func(*reachTx) error) error {
	of := r.reachNamed(throttle)
	if of == nil {
		return fmt.Errorf("there is no reach throttle %q: %w", throttle, ErrUnknown)
	}
	return r.change(ctx, now, of, user, do)
}

// ClearReach removes the flag of a user for an operator, and counts anew. Known recipients and withheld messages stay.
func (r *reaches) ClearReach(ctx context.Context, now time.Time, by, throttle, user string) error {
	return r.setFlag(ctx, now, throttle, user, func(c *reachTx) error {
		c.sketch.state.Clear(now)
		if !c.was {
			return nil
		}
		c.was = false // store logs no second entry
		return c.note(by, "unflagged", "cleared")
	})
}

// FlagReach flags a user for an operator, until it is cleared.
func (r *reaches) FlagReach(ctx context.Context, now time.Time, by, throttle, user string) error {
	return r.setFlag(ctx, now, throttle, user, func(c *reachTx) error {
		c.sketch.state.SetFlag(now)
		if c.was {
			return c.note(by, "flagged", "by hand, beside the flag that holds: it stays until somebody clears it")
		}
		c.was = true // store logs no second entry
		// A state keeps whole seconds, and its clock may be ahead of this one.
		c.since, _, _ = c.sketch.state.Flagged()
		return c.note(by, "flagged", "by hand")
	})
}

// noteOld notes in all throttles that an account is older than anything that is known of it.
func (r *reaches) noteOld(tx store.MailTx, now time.Time, user string) error {
	for _, of := range r.reachThrottles() {
		c, err := r.open(tx, now, of, user)
		if err != nil {
			return err
		}
		c.sketch.state.IsAtLeastFrom(time.Time{}, now)
		if err := c.store(); err != nil {
			return err
		}
	}
	return nil
}

// A ReachStanding is how a user stands with a reach throttle.
type ReachStanding struct {
	Throttle string         `json:"throttle"`
	User     string         `json:"user"`
	Flagged  bool           `json:"flagged"`
	Shadow   bool           `json:"shadow,omitempty"` // the flag has no consequences
	Since    time.Time      `json:"since,omitzero"`   // flagged
	Why      string         `json:"why,omitempty"`
	Holds    string         `json:"holds,omitempty"` // what the flag does
	Exempt   bool           `json:"exempt,omitempty"`
	Count    float64        `json:"recipients"`     // different ones, estimated
	First    time.Time      `json:"first,omitzero"` // when the account was first known; zero where it is older
	Figures  []reach.Figure `json:"windows"`
	Bytes    int            `json:"bytes"` // of the sketch
	Problem  string         `json:"problem,omitempty"`
}

func (r *reaches) reachStanding(tx store.MailTx, now time.Time, of *Reach, user string) ReachStanding {
	one := ReachStanding{Throttle: of.Name, User: user, Shadow: of.inShadow(), Exempt: of.Rules.Exempt(user)}
	c, err := r.open(tx, now, of, user)
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
	one.Count, one.First, one.Bytes = st.Count(), st.Since(), st.Bytes()
	one.Figures = st.Figures(of.Rules, of.Population, now)
	return one
}

// ReachStandings says how a user stands with each reach throttle that has a sketch of the user.
func (r *reaches) ReachStandings(ctx context.Context, now time.Time, user string) ([]ReachStanding, error) {
	return read(ctx, r.env, func(tx store.MailTx) ([]ReachStanding, error) { return r.standings(tx, now, user) })
}

func (r *reaches) standings(tx store.MailTx, now time.Time, user string) (list []ReachStanding, err error) {
	for _, of := range r.reachThrottles() {
		switch _, err := tx.Sketch(of.Name, user); {
		case err == nil:
			list = append(list, r.reachStanding(tx, now, of, user))
		case !isNotFound(err):
			return nil, err
		}
	}
	return list, nil
}

// FlaggedUsers lists users who are flagged, or would be if the throttle were not in shadow, up to limit.
func (r *reaches) FlaggedUsers(ctx context.Context, now time.Time, limit int) ([]ReachStanding, error) {
	return read(ctx, r.env, func(tx store.MailTx) (list []ReachStanding, err error) {
		err = r.flagged.each(tx, func(k throttleUser) bool {
			if of := r.reachNamed(k.throttle); of != nil {
				if one := r.reachStanding(tx, now, of, k.user); one.Flagged || one.Problem != "" {
					list = append(list, one)
				}
			}
			return len(list) < limit
		})
		return list, err
	})
}

// loadPopulation reads what a reach throttle has learnt of all its users together. A damaged one is learnt anew.
func (r *reaches) loadPopulation(ctx context.Context, of *Reach) error {
	return r.store.View(ctx, func(tx store.MailTx) error {
		k, err := tx.Sketch(of.Name, "")
		if isNotFound(err) {
			return nil
		}
		if err == nil {
			err = of.Population.UnmarshalBinary(k.State)
		}
		if err != nil {
			r.log.Error("what a reach throttle has learned cannot be read and starts again", "throttle", of.Name, "error",
				err)
		}
		return nil
	})
}

func (r *reaches) savePopulations(ctx context.Context) error {
	all := r.reachThrottles()
	if len(all) == 0 {
		return nil
	}
	return r.update(ctx, func(tx store.MailTx) error {
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

// A Message is one of any channel, whose recipients a reach throttle judges for a client that asks.
type Message struct {
	User       string
	Recipients []string // as reach.Rules write them
}

func (r *reaches) people(recipients []string) *reachCount {
	c := &reachCount{of: make([]int, len(recipients))}
	for i, person := range recipients {
		c.of[i] = c.add(r.keys, person)
	}
	c.fates = make([]reach.Fate, len(c.keys))
	return c
}

// LookReach judges a message as if the messages of the user to those under way had been sent. Nothing is stored.
func (r *reaches) LookReach(ctx context.Context, now time.Time, of *Reach, m Message,
	underWay []string) (reach.Verdict, error) {
	counts, before := r.people(m.Recipients), r.people(underWay)
	return read(ctx, r.env, func(tx store.MailTx) (reach.Verdict, error) {
		c, err := r.open(tx, now, of, m.User)
		if err != nil {
			return reach.Verdict{}, err
		}
		if len(before.keys) > 0 {
			c.judge(before)
			clear(before.fates)
			c.commit(before)
		}
		c.judge(counts)
		return c.verdict, nil
	})
}

// NoteReach takes a message into the history. The recipients of one that was not sent count as tried.
func (r *reaches) NoteReach(ctx context.Context, now time.Time, of *Reach, m Message, sent bool) error {
	counts := r.people(m.Recipients)
	return r.change(ctx, now, of, m.User, func(c *reachTx) error {
		c.judge(counts)
		if sent {
			clear(counts.fates)
			c.verdict.Held, c.verdict.Refused, c.verdict.Cause = 0, 0, reach.NoCause
		} else {
			counts.refuse()
		}
		c.commit(counts)
		return nil
	})
}
