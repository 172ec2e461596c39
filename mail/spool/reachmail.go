package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/mail/notice"
	"weir/store"
	"weir/throttle/reach"
)

// reachCount are the recipients of a mail that a reach throttle counts.
type reachCount struct {
	keyList
	fates []reach.Fate
	of    []int // by recipient: the index of the key; -1: not counted
}

// countReach finds out which recipients are counted: each person once.
func (r *reaches) countReach(g *Gate, user *store.User, to []To) *reachCount {
	c := &reachCount{of: make([]int, len(to))}
	for i := range to {
		c.of[i] = -1
		if g.free(user, to[i].Address, normal(to[i].Address)) {
			continue
		}
		person, counted := g.Reach.Rules.Recipient(to[i].Address)
		if !counted {
			continue
		}
		c.of[i] = c.add(r.keys, person)
	}
	c.fates = make([]reach.Fate, len(c.keys))
	return c
}

func (c *reachCount) fate(i int) reach.Fate {
	if c == nil || c.of[i] < 0 {
		return reach.Pass
	}
	return c.fates[c.of[i]]
}

// refuse makes all recipients of a mail that is not taken count as tried only.
func (c *reachCount) refuse() {
	for i := range c.fates {
		c.fates[i] = reach.Refuse
	}
}

// countsReach reports whether a mail is put before the reach throttle: not a notification, which has no sender and one
// recipient, unless a user with a password sent it.
func (g *Gate) countsReach(user, sender string, recipients int) bool {
	if g.Reach == nil {
		return false
	}
	if sender != "" || recipients != 1 {
		return true
	}
	if g.Mail != nil {
		return g.Mail.CountsNull(user)
	}
	return !byAddress(user)
}

// reach asks the reach throttle. One refused recipient refuses the mail: all are noted as tried, in.refusal says why.
func (in *incoming) reach(tx store.MailTx) error {
	in.reachTx, in.counts, in.refusal, in.putOff = nil, nil, nil, nil
	if !in.gate.countsReach(in.e.User, in.e.Sender, len(in.e.To)) {
		return nil
	}
	c, user, err := in.queue.reach.ask(tx, in.now, in.gate, in.e.User, in.e.To)
	if err != nil || c == nil {
		return err
	}
	in.reachTx, in.counts = c, c.counts
	if !c.shadow && c.verdict.Refused > 0 {
		return in.refuse(&user, refusal(c.verdict))
	}
	if n := c.verdict.Held; n > 0 && !c.shadow {
		o := c.of.Rules.Options()
		if c.sketch.withheld+n > o.Withheld || c.sketch.bytes+in.text.Size > int64(o.WithheldSize) {
			return in.refuse(&user, ErrWithheld)
		}
		c.sketch.withheld, c.sketch.bytes = c.sketch.withheld+n, c.sketch.bytes+in.text.Size
	}
	c.commit(c.counts)
	return nil
}

// refuse counts everybody as tried. The mail is not taken; but what is refused for now another server would try again,
// and where the user is stopped it is held with what weir has.
func (in *incoming) refuse(user *store.User, why error) error {
	in.counts.refuse()
	in.reachTx.commit(in.counts)
	forNow := errors.Is(why, ErrFlaggedLimit) || errors.Is(why, ErrWithheld)
	if forNow && in.e.Diverted && in.queue.Stopped(in.gate.Name, in.e.User) {
		clear(in.counts.fates)
		in.putOff = why
		return nil
	}
	in.refusal = why
	return in.tellFlagged(user)
}

// tellFlagged stores the reachTx, and tells the admin and the user that the user was flagged or has mail withheld.
func (in *incoming) tellFlagged(user *store.User) (err error) {
	if in.reachTx == nil {
		return nil
	}
	told := false
	in.reached, told, err = in.reachTx.finish(in.gate, user)
	in.told = in.told || told
	return err
}

// ask judges the recipients of a mail that the reach throttle of a gate counts. nil: it counts none.
func (r *reaches) ask(tx store.MailTx, now time.Time, g *Gate, name string, to []To) (*reachTx, store.User, error) {
	user, err := userOf(tx, name)
	if err != nil {
		return nil, user, err
	}
	counts := r.countReach(g, &user, to)
	if len(counts.keys) == 0 {
		return nil, user, nil
	}
	c, err := r.open(tx, now, g.Reach, name)
	if err != nil {
		return nil, user, err
	}
	c.counts = counts
	c.judge(counts)
	if c.shadow {
		clear(counts.fates) // all of them go on
	}
	return c, user, nil
}

// finish tells the admin and the user what there is to tell, and stores what has changed. It reports whether there is a
// notice to deliver.
func (c *reachTx) finish(g *Gate, user *store.User) (after reached, told bool, err error) {
	if told, err = c.tell(g, user); err == nil {
		err = c.store()
	}
	if err != nil {
		return reached{}, false, err
	}
	return c.end(), told, nil
}

// tell tells the admin and the user that the user was flagged or has mail withheld, once in a while. user may be nil.
// It reports whether there is something to deliver.
func (c *reachTx) tell(g *Gate, user *store.User) (bool, error) {
	flagged := c.verdict.Now && !c.shadow
	if c.shadow || !flagged && c.verdict.Held == 0 || !c.sketch.told.IsZero() &&
		c.now.Sub(c.sketch.told).Abs() < g.NoticeEvery {
		return false, nil
	}
	if user == nil {
		u, err := userOf(c.tx, c.user)
		if err != nil {
			return false, err
		}
		user = &u
	}
	admin := ""
	if flagged {
		admin = g.Admin
	}
	c.sketch.told = c.now
	action := c.of.Rules.Options().Over
	return c.reach.notify(c.tx, c.now, g, user, notification{kind: notice.Flagged, adminKind: notice.AdminFlagged,
		user: action != reach.Flag, admin: admin, why: figureText(c.verdict.Figure) + "; " + holds(c.of.Rules, action)})
}

func holds(r *reach.Rules, action reach.Action) string {
	switch action {
	case reach.Limit:
		return fmt.Sprintf("he may send %s", r.Options().Limit)
	case reach.KnownOnly:
		return "recipients who are new to him are refused"
	case reach.HoldNew:
		return "recipients who are new to him are withheld until somebody has looked at them"
	case reach.Block:
		return "all his mail is refused"
	}
	return "his mail goes on"
}

// userOf reads a user; only the name where the store has none.
func userOf(tx store.MailTx, name string) (store.User, error) {
	user, err := tx.User(name)
	if isNotFound(err) {
		return store.User{Name: name}, nil
	}
	return user, err
}

// A freed is what is not withheld any more of a gate's mail.
type freed struct {
	known      []string // released recipients
	recipients int
	bytes      int64
	mail       store.MailID // whose bytes were noted last
}

// settleWithheld notes what was decided about withheld mail: released recipients are known to those gates from now on.
func (r *reaches) settleWithheld(tx store.MailTx, now time.Time, user string, freed map[string]*freed) error {
	for gate, f := range freed {
		g := r.gates.Load().of(gate)
		if g == nil || g.Reach == nil {
			continue
		}
		to := make([]To, len(f.known))
		for i := range to {
			to[i].Address = f.known[i]
		}
		u, err := userOf(tx, user)
		if err != nil {
			return err
		}
		c, err := r.open(tx, now, g.Reach, user)
		if err != nil {
			return err
		}
		c.sketch.state.Learn(g.Reach.Rules, now, r.countReach(g, &u, to).keys)
		c.sketch.withheld, c.sketch.bytes = max(0, c.sketch.withheld-f.recipients), max(0, c.sketch.bytes-f.bytes)
		if err := c.store(); err != nil {
			return err
		}
	}
	return nil
}

// Flagged reports whether a user of a gate may be flagged, from memory. In shadow nobody is.
func (r *reaches) Flagged(gate, user string) bool {
	g := r.gates.Load().of(gate)
	return g != nil && g.Reach != nil && !g.Reach.inShadow() && r.flagged.has(g.Reach.Name, user)
}

// Reaches reports whether a user may write to a recipient, for gates that can refuse one by one: ErrNewRecipient,
// ErrFlagged or ErrFlaggedLimit. It counts what it refuses. Users who are not flagged may write to anybody.
func (r *reaches) Reaches(ctx context.Context, now time.Time, gate, user, sender, recipient string) error {
	if !r.Flagged(gate, user) {
		return nil
	}
	g := r.gates.Load().of(gate)
	if g == nil || !g.countsReach(user, sender, 1) {
		return nil
	}
	var refused error
	ask := func(tx store.MailTx) (*reachTx, store.User, error) {
		c, u, err := r.ask(tx, now, g, user, []To{{Address: recipient}})
		if refused = nil; c != nil && c.verdict.Refused > 0 && !c.shadow {
			refused = refusal(c.verdict)
		}
		return c, u, err
	}
	err := r.store.View(ctx, func(tx store.MailTx) error {
		_, _, err := ask(tx)
		return err
	})
	if err != nil || refused == nil {
		return err
	}
	var after reached
	told := false
	err = r.update(ctx, func(tx store.MailTx) error {
		after, told = reached{}, false
		c, u, err := ask(tx)
		if err != nil || refused == nil {
			return err
		}
		c.commit(c.counts)
		after, told, err = c.finish(g, &u)
		return err
	})
	if err != nil {
		return err
	}
	r.settleReach(after)
	if told {
		_ = r.delivery.handDue(ctx, now) // what fails is logged, and tried again
	}
	return refused
}
