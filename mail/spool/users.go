package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/mail/notice"
	"weir/store"
	"weir/throttle/outbreak"
)

// StopUser stops a user at every throttle, and tells the user. Only an operator can resume them.
func (d *desk) StopUser(ctx context.Context, now time.Time, by, user, why string) error {
	return d.atEveryThrottle(ctx, now, user, func(t *userTx) error {
		if t.was && t.mem.suspended { // stays stopped when enabled again
			if err := t.note(by, "stopped", why); err != nil {
				return err
			}
		}
		t.mem.state.Stop(now)
		t.mem.wouldStop, t.mem.suspended, t.earnest = false, false, true
		return t.end(news{by: by, why: why})
	}, nil)
}

// ErrDisabled is returned by ResumeUser for disabled users.
var ErrDisabled = errors.New("spool: the user is disabled")

// ResumeUser lets a stopped user send again, at the normal pace or in slow motion. What is held stays held.
func (d *desk) ResumeUser(ctx context.Context, now time.Time, by, user string, slow bool) error {
	return d.atEveryThrottle(ctx, now, user, func(t *userTx) error {
		if t.user.Disabled {
			return ErrDisabled
		}
		if _, stopped := t.mem.state.Stopped(); !stopped {
			return t.end(news{})
		}
		return t.resume(by, slow)
	}, func(tx store.MailTx, m *store.Memory) (result, error) { return d.releaseLost(tx, now, by, m) })
}

// releaseLost removes the memory that a throttle that is gone has of a user, and releases what it delayed. What it held
// stays held.
func (d *desk) releaseLost(tx store.MailTx, now time.Time, by string, m *store.Memory) (result, error) {
	t, err := d.queue.openLost(tx, now, m)
	if err != nil {
		return result{}, err
	}
	if err := t.readyItems(t.mem.state.Waiting()); err != nil {
		return result{}, err
	}
	if t.was || m.Stopped {
		t.resumed = true
		if err := t.note(by, "resumed", fmt.Sprintf("the throttle %s is gone", t.throttle)); err != nil {
			return result{}, err
		}
	}
	return t.result, tx.Remember(store.Memory{Throttle: m.Throttle, User: m.User})
}

func (t *userTx) resume(by string, slow bool) error {
	t.mem.state.Resume(&t.params, t.now, slow)
	how := ""
	if slow {
		how = "in slow motion"
	}
	if err := t.resumeMail(by, how); err != nil {
		return err
	}
	return t.end(news{})
}

// maxMemories is how many throttles may remember a user, including those that are gone.
const maxMemories = 1000

// atEveryThrottle calls do for every throttle, and lost, unless it is nil, for every throttle that is gone.
func (d *desk) atEveryThrottle(ctx context.Context, now time.Time, user string, do func(*userTx) error,
	lost func(store.MailTx, *store.Memory) (result, error)) error {
	if len(d.gates.Load().list) == 0 {
		return errNoGate
	}
	return d.queue.apply(ctx, now, func(tx store.MailTx) (results []result, err error) {
		for _, g := range d.gates.Load().throttles() {
			t, err := d.queue.openUser(tx, now, g, user)
			if err == nil {
				err = do(t)
			}
			if err != nil {
				return nil, err
			}
			results = append(results, t.result)
		}
		if lost == nil {
			return results, nil
		}
		memories, err := d.lostMemories(tx, user)
		for i := 0; i < len(memories) && err == nil; i++ {
			var r result
			r, err = lost(tx, &memories[i])
			results = append(results, r)
		}
		return results, err
	})
}

func (d *desk) lostMemories(tx store.MailTx, user string) ([]store.Memory, error) {
	all, err := tx.Memories(user, maxMemories)
	known := d.gates.Load()
	return slices.DeleteFunc(all, func(m store.Memory) bool { return known.throttle(m.Throttle) != nil }), err
}

// ChangeUser changes or adds a user. change is given the user as stored, or with only the name, and whether the user is
// new. It may be called more than once; where it empties Made of a new user, the account is older than weir knows.
// Limits that cannot be read are an error. Valid ones hold at once, also for what waits. Waiting messages of a disabled
// user are held until the user is enabled. Another contact voids the tickets, since they were sent to the old one,
// which is told. A stopped user is told again.
func (d *desk) ChangeUser(ctx context.Context, now time.Time, by, name string,
	change func(u *store.User, isNew bool) error) error {
	return d.queue.apply(ctx, now, func(tx store.MailTx) ([]result, error) {
		u, err := tx.User(name)
		isNew, what := errors.Is(err, store.ErrNotFound), "changed"
		if err != nil && !isNew {
			return nil, err
		}
		if isNew {
			u, what = store.User{Name: name, Made: now}, "added"
		}
		before := u
		if err := change(&u, isNew); err != nil {
			return nil, err
		}
		if isNew && u.Made.IsZero() {
			u.Made = now
			if err := d.reach.noteOld(tx, now, name); err != nil {
				return nil, err
			}
		}
		if isNew {
			u.Made, err = d.ownsFrom(tx, name, u.Made)
			if err != nil {
				return nil, err
			}
		}
		u.Name, u.Changed = name, now
		if err := validLimits(u.Limits); err != nil {
			return nil, err
		}
		if err := tx.PutUser(u); err != nil {
			return nil, err
		}
		if err := tx.Log(entry(now, by, what, name, 0, differences(&before, &u))); err != nil {
			return nil, err
		}
		moved := before.Contact != u.Contact
		if moved {
			if err := tx.RemoveTickets(name); err != nil {
				return nil, err
			}
		}
		results, err := d.reconsider(tx, now, name, news{by: by, moved: moved}, u.Disabled)
		if gates := d.gates.Load().throttles(); err == nil && moved && before.Contact != "" && len(gates) > 0 {
			results = append(results, result{ready: true})
			err = d.write(tx, gates[0], &notice.Notice{Kind: notice.Moved, Host: gates[0].Host, Now: now, User: name,
				Language: gates[0].speaks(&before)}, before.Contact)
		}
		return results, err
	})
}

// ownsFrom is from when mail belongs to a user who is added now: a name that sent before it was registered keeps what
// waits, unless it was that of a user who was removed.
func (d *desk) ownsFrom(tx store.MailTx, name string, now time.Time) (time.Time, error) {
	removed, err := tx.Entries(store.EntryQuery{User: name, What: "removed"}, 1)
	if err != nil || len(removed) > 0 {
		return now, err
	}
	held, err := heldMail(tx, name, time.Time{}, 1)
	if len(held) > 0 {
		return earlier(held[0].Received, now), err
	}
	return now, err
}

// reconsider runs the clocks of a changed user. A disabled user is stopped at every throttle, known there or not.
func (d *desk) reconsider(tx store.MailTx, now time.Time, name string, n news,
	disabled bool) (results []result, err error) {
	for _, g := range d.gates.Load().throttles() {
		switch _, err := tx.Remembered(g.Throttle, name); {
		case isNotFound(err) && !disabled:
			continue
		case err != nil && !isNotFound(err):
			return nil, err
		}
		t, err := d.queue.openUser(tx, now, g, name)
		if err != nil {
			return nil, err
		}
		if err := t.end(n); err != nil {
			return nil, err
		}
		results = append(results, t.result)
	}
	lost, err := d.lostMemories(tx, name)
	if err != nil || disabled { // the clock of a lost throttle suspends the user when it is due
		return results, err
	}
	for i := range lost {
		t, err := d.queue.openLost(tx, now, &lost[i])
		if err != nil {
			return nil, err
		}
		if !t.mem.suspended {
			continue
		}
		r, err := d.releaseLost(tx, now, n.by, &lost[i])
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// differences names the fields of a user that have changed.
func differences(a, b *store.User) string {
	var all []string
	for _, d := range []struct {
		name string
		is   bool
	}{
		{"password", a.Password != b.Password}, {"contact", a.Contact != b.Contact},
		{"language", a.Language != b.Language},
		{"senders", !slices.Equal(a.Senders, b.Senders)},
		{"limits", a.Limits != b.Limits}, {"disabled", b.Disabled && !a.Disabled},
		{"enabled", a.Disabled && !b.Disabled},
	} {
		if d.is {
			all = append(all, d.name)
		}
	}
	return strings.Join(all, ", ")
}

func validLimits(text string) error {
	l, err := outbreak.ParseLimits(text)
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return fmt.Errorf("the user's limits: %w", err)
	}
	return nil
}

// RemoveUser removes a user, with the tickets. The messages stay. Those in delay queues, also of throttles that are
// gone, are held for operators to release or delete.
func (d *desk) RemoveUser(ctx context.Context, now time.Time, by, name string) error {
	err := d.queue.apply(ctx, now, func(tx store.MailTx) (results []result, err error) {
		if _, err := tx.User(name); err != nil {
			return nil, err
		}
		memories, err := tx.Memories(name, maxMemories)
		if err != nil {
			return nil, err
		}
		for _, m := range memories {
			results = append(results, result{throttle: m.Throttle, user: name, resumed: m.Stopped})
		}
		held, err := holdAll(tx, name)
		if err == nil {
			err = tx.RemoveUser(name)
		}
		if err != nil {
			return nil, err
		}
		text := ""
		switch {
		case held == 1:
			text = "1 recipient that waited is held"
		case held > 1:
			text = fmt.Sprintf("%d recipients that waited are held", held)
		}
		return results, tx.Log(entry(now, by, "removed", name, 0, text))
	})
	if err != nil {
		return err
	}
	for _, of := range d.reach.reachThrottles() {
		d.refresh(&d.reach.flagged, of.Name, name)
	}
	return nil
}

// A Standing is the state of a user in one throttle.
type Standing struct {
	Throttle   string    `json:"throttle"`
	Shadow     bool      `json:"shadow,omitempty"` // it counts, and lets everything pass
	Stopped    bool      `json:"stopped"`
	Since      time.Time `json:"since,omitzero"`  // when they were stopped
	Resume     time.Time `json:"resume,omitzero"` // when they are tried again
	Slow       bool      `json:"slow,omitempty"`  // they are being tried, in slow motion
	Waiting    int       `json:"waiting"`         // recipients in their delay queue
	Slack      int       `json:"slack"`
	MSlack     int       `json:"mslack"`
	WorkingSet int       `json:"working_set"` // recipients in it now
	Limits     string    `json:"limits"`      // what holds for them, everything filled in

	ByOperator bool      `json:"-"`
	Limit      int       `json:"-"` // how many may wait
	Most       Credit    `json:"-"` // what slack, mSlack and working set grow to
	Known      bool      `json:"-"` // the throttle remembers the user
	Exempt     bool      `json:"-"` // everything passes
	Next       time.Time `json:"-"` // when a recipient leaves the queue, or the user is tried again
	Told       time.Time `json:"-"` // when the user was last told
	Problem    string    `json:"-"` // why nothing is known of them
}

// A Credit is how much a user may have of what a throttle gives.
type Credit struct{ Slack, MSlack, WorkingSet int }

// Standing says how a user stands with each throttle. Of a throttle that is gone, it says only what that holds back.
func (d *desk) Standing(ctx context.Context, now time.Time, user string) ([]Standing, error) {
	return read(ctx, d.env, func(tx store.MailTx) ([]Standing, error) { return d.standing(tx, now, user) })
}

// A UserStanding is how a user stands with the throttles that know them.
type UserStanding struct {
	Mail  []Standing
	Reach []ReachStanding
}

// Standings says how several users stand, in one transaction. Their order is kept.
func (d *desk) Standings(ctx context.Context, now time.Time, users []string) ([]UserStanding, error) {
	return read(ctx, d.env, func(tx store.MailTx) (list []UserStanding, err error) {
		for _, user := range users {
			var one UserStanding
			if one.Mail, err = d.standing(tx, now, user); err != nil {
				return nil, err
			}
			one.Mail = slices.DeleteFunc(one.Mail, func(s Standing) bool { return !s.Known })
			if one.Reach, err = d.reach.standings(tx, now, user); err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	})
}

func (d *desk) standing(tx store.MailTx, now time.Time, user string) (list []Standing, err error) {
	for _, g := range d.gates.Load().throttles() {
		t, err := d.queue.peekUser(tx, now, g, user)
		if err != nil {
			return nil, err
		}
		st := &t.mem.state
		since, stopped := st.Stopped()
		one := Standing{Throttle: g.Throttle, Stopped: stopped, Since: since, ByOperator: st.ByOperator(),
			Shadow: t.mem.wouldStop, Slow: st.Slow(), Waiting: len(st.Waiting()), Limit: t.params.Stop,
			Exempt: t.params.Exempt, Next: st.Due(&t.params), Told: t.mem.told, Known: t.known}
		one.Slack, one.MSlack = st.Credit(&t.params, now)
		one.WorkingSet, one.Limits = st.Known(), t.params.String()
		one.Most = Credit{t.params.MaxSlack, t.params.MaxMSlack, t.params.WorkingSet}
		if stopped {
			one.Resume = one.Next
		}
		if t.damage != nil {
			one.Problem = t.damage.Error()
		}
		list = append(list, one)
	}
	lost, err := d.lostMemories(tx, user)
	for _, m := range lost {
		if !m.Stopped {
			continue // what waits leaves by itself
		}
		one := Standing{Throttle: m.Throttle, Stopped: true, Known: true, Limits: "none: the throttle is gone"}
		var mem memory
		if damage := mem.read(m.State); damage != nil {
			one.Problem = damage.Error()
		}
		one.Since, _ = mem.state.Stopped()
		one.ByOperator, one.Waiting = mem.state.ByOperator(), len(mem.state.Waiting())
		list = append(list, one)
	}
	return list, err
}
