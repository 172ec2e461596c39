package spool

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weir/mail/notice"
	"weir/store"
	"weir/throttle/reach"
)

// reachCount are the recipients of a message that a reach throttle counts.
type reachCount struct {
	keyList
	fates []reach.Fate
	of    []int // by recipient: the index of the key; -1: not counted
}

// countReach returns the recipients that are counted: each person once.
func (r *reaches) countReach(g *Gate, user *store.User, to []To) *reachCount {
	c := &reachCount{of: make([]int, len(to))}
	for i := range to {
		c.of[i] = -1
		if g.free(user, to[i].Address, normal(to[i].Address)) {
			continue
		}
		if person, counted := g.Reach.Rules.Recipient(to[i].Address); counted {
			c.of[i] = c.add(r.keys, person)
		}
	}
	c.fates = make([]reach.Fate, len(c.keys))
	return c
}

// fate is that of a recipient. A nil reachTx has judged nobody.
func (c *reachTx) fate(i int) reach.Fate {
	if c == nil || c.counts.of[i] < 0 {
		return reach.Pass
	}
	return c.counts.fates[c.counts.of[i]]
}

// refuse makes all recipients of a message that is not taken count as tried only.
func (c *reachCount) refuse() { c.fates = slices.Repeat([]reach.Fate{reach.Refuse}, len(c.fates)) }

// countsReach reports whether the reach throttle judges a message. It does not judge a notification, which has no
// sender and one recipient, unless a user with a password sent it.
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

// reach asks the reach throttle. If it refuses a recipient, the message is refused: all recipients count as tried, and
// in.refusal says why.
func (in *incoming) reach(tx store.MailTx) (err error) {
	in.reachTx, in.refusal, in.putOff = nil, nil, nil
	if !in.gate.countsReach(in.e.User, in.e.Sender, len(in.e.To)) {
		return nil
	}
	in.reachTx, err = in.queue.reach.ask(tx, in.now, in.gate, in.e.User, in.e.To)
	c := in.reachTx
	if err != nil || c == nil {
		return err
	}
	if why := c.refused(); why != nil {
		return in.refuse(why)
	}
	if n := c.verdict.Held; n > 0 && !c.shadow {
		o := c.of.Rules.Options()
		if c.sketch.withheld+n > o.Withheld || c.sketch.bytes+in.text.Size > int64(o.WithheldSize) {
			return in.refuse(ErrWithheld)
		}
		c.sketch.withheld, c.sketch.bytes = c.sketch.withheld+n, c.sketch.bytes+in.text.Size
	}
	c.commit(c.counts)
	return nil
}

// refuse counts all recipients as tried. The message is not taken, with one exception: a temporary refusal of a
// diverted message would make the other server try again. If the user is stopped, the message is held instead.
func (in *incoming) refuse(why *Refusal) error {
	counts := in.reachTx.counts
	counts.refuse()
	in.reachTx.commit(counts)
	if why.Later && in.e.Diverted && in.queue.Stopped(in.gate.Name, in.e.User) {
		clear(counts.fates)
		in.putOff = why
		return nil
	}
	in.refusal = why
	return in.endReach(false)
}

// endReach stores the reachTx with its notices. stops says that the mail throttle stops the user.
func (in *incoming) endReach(stops bool) (err error) {
	if in.reachTx != nil {
		in.reachTx.stops = stops
		in.told, err = in.reachTx.finish()
	}
	return err
}

// ask judges the recipients of a message that the reach throttle of a gate counts. It returns nil if it counts none.
func (r *reaches) ask(tx store.MailTx, now time.Time, g *Gate, name string, to []To) (*reachTx, error) {
	user, err := r.userOf(tx, name)
	if err != nil {
		return nil, err
	}
	counts := r.countReach(g, &user, to)
	if len(counts.keys) == 0 {
		return nil, nil
	}
	c, err := r.open(tx, now, g.Reach, name)
	if err != nil {
		return nil, err
	}
	c.gate, c.account, c.counts = g, user, counts
	c.judge(counts)
	if c.shadow {
		clear(counts.fates) // all of them go on
	}
	return c, nil
}

// finish writes notices and stores the sketch. It reports whether there is a notice to deliver.
func (c *reachTx) finish() (told bool, err error) {
	if told, err = c.tell(); err == nil {
		err = c.store()
	}
	return told, err
}

// tell tells the admin and the user that the user was flagged or has messages withheld, at most once per NoticeEvery.
// It reports whether there is a notice to deliver.
func (c *reachTx) tell() (bool, error) {
	flagged := c.verdict.Now && !c.shadow
	if c.shadow || !flagged && c.verdict.Held == 0 || !c.sketch.told.IsZero() &&
		c.now.Sub(c.sketch.told).Abs() < c.gate.NoticeEvery {
		return false, nil
	}
	admin := ""
	if flagged {
		admin = c.gate.Admin
	}
	if !c.stops { // else of what is withheld when they may send again
		c.sketch.told = c.now
	}
	o := c.of.Rules.Options()
	_, by, _ := c.sketch.state.Flagged()
	return c.reach.notify(c.tx, c.now, c.gate, &c.account, notification{kind: notice.Flagged,
		adminKind: notice.AdminFlagged, user: o.Over != reach.Flag && !c.stops, admin: admin,
		Notice: notice.Notice{Over: overs[o.Over], Rate: o.Limit.String(), Forever: by.Limit == 0,
			Text: figureText(c.verdict.Figure) + "; " + holds(c.of.Rules, o.Over)}})
}

// overs is what holds for flagged users, in the words of notices. With reach.Flag nothing does.
var overs = map[reach.Action]notice.Over{reach.HoldNew: notice.NewOnHold, reach.KnownOnly: notice.NewRefused,
	reach.Limit: notice.Rationed, reach.Block: notice.Blocked}

func holds(r *reach.Rules, action reach.Action) string {
	switch action {
	case reach.Limit:
		return fmt.Sprintf("the user may send %s", r.Options().Limit)
	case reach.KnownOnly:
		return "recipients who are new to the user are refused"
	case reach.HoldNew:
		return "recipients who are new to the user are withheld until somebody has looked at them"
	case reach.Block:
		return "all messages of the user are refused"
	}
	return "messages of the user still go out"
}

// A freed is what is not withheld any more of the mail of a gate.
type freed struct {
	known      []string // released recipients
	recipients int
	bytes      int64
	mail       store.MailID // whose bytes were added last
}

// settleWithheld notes what was decided about withheld messages: the gates know released recipients from now on.
func (r *reaches) settleWithheld(tx store.MailTx, now time.Time, user string, freed map[string]*freed) error {
	for gate, f := range freed {
		g := r.gates.Load().of(gate)
		if g == nil || g.Reach == nil {
			continue
		}
		u, err := r.userOf(tx, user)
		if err != nil {
			return err
		}
		c, err := r.open(tx, now, g.Reach, user)
		if err != nil {
			return err
		}
		c.sketch.state.Learn(g.Reach.Rules, now, r.countReach(g, &u, addressed(f.known)).keys)
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

// Reaches is for gates that can refuse single recipients. It returns nil if a user may write to a recipient, and else
// ErrNewRecipient, ErrFlagged or ErrFlaggedLimit. It counts what it refuses. Users who are not flagged may write to
// anybody.
func (r *reaches) Reaches(ctx context.Context, now time.Time, gate, user, sender, recipient string) error {
	if !r.Flagged(gate, user) {
		return nil
	}
	g := r.gates.Load().of(gate)
	if g == nil || !g.countsReach(user, sender, 1) {
		return nil
	}
	ask := func(tx store.MailTx) (*reachTx, error) { return r.ask(tx, now, g, user, []To{{Address: recipient}}) }
	c, err := read(ctx, r.env, ask)
	if err != nil || c.refused() == nil {
		return err
	}
	told := false
	err = r.update(ctx, func(tx store.MailTx) (err error) {
		told = false
		if c, err = ask(tx); err != nil || c.refused() == nil {
			return err
		}
		c.commit(c.counts)
		told, err = c.finish()
		return err
	})
	if err != nil || c.refused() == nil {
		return err
	}
	r.settleReach(c)
	if told {
		_ = r.delivery.handDue(ctx, now) // an error is logged, and it is tried again
	}
	return c.refused()
}
