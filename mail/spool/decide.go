package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir"
	"weir/store"
	"weir/throttle/reach"
)

// A Verdict is what Decide says about a message that another server keeps. doc.go has the words of other packages.
type Verdict struct {
	Pass     bool  // all recipients may go on
	Delayed  int   // how many would wait
	Withheld int   // how many are new to a flagged user, and wait for a review
	Refused  bool  // the user is stopped, or flagged, or has sent too many messages without a sender
	Why      error // flagged: ErrNewRecipient, ErrFlagged or ErrFlaggedLimit; without a sender: ErrNulls
}

// Decide judges a message that another server keeps. With commit, a message that passes is charged. With count too, one
// that does not pass is charged as well: its recipients count as waiting, which may stop the user.
func (q *queue) Decide(ctx context.Context, now time.Time, gate, user, sender string, recipients []string, commit,
	count bool) (Verdict, error) {
	g := q.gates.Load().of(gate)
	if g == nil {
		return Verdict{}, fmt.Errorf("%w: %q", ErrUnknown, gate)
	}
	null := g.passesNull(user, sender, len(recipients))
	free := g.Mail == nil && !q.Stopped(gate, user) // stopped users send no notifications either
	reaches := g.countsReach(user, sender, len(recipients))
	if free && !reaches {
		return Verdict{Pass: true}, nil
	}
	if len(recipients) > MaxRecipients {
		return Verdict{}, q.tooMany(len(recipients), MaxRecipients)
	}
	ask := question{queue: q, now: now, gate: g, user: user, to: addressed(recipients), count: count, null: null,
		free: free, reaches: reaches}
	if !commit {
		err := q.store.View(ctx, ask.peek)
		return ask.verdict, err
	}
	if err := q.update(ctx, ask.charge); err != nil {
		return Verdict{}, err
	}
	q.settle(ask.result)
	q.reach.settleReach(ask.reachTx)
	if ask.ready {
		_ = q.delivery.handDue(ctx, now) // an error is logged, and it is tried again
	}
	if ask.verdict.Why == ErrNulls {
		q.tell.Bounded(BoundNulls)
	}
	q.tell.Decided(gate, user, ask.verdict, len(recipients))
	return ask.verdict, nil
}

func addressed(addresses []string) []To {
	to := make([]To, len(addresses))
	for i := range to {
		to[i].Address = addresses[i]
	}
	return to
}

// A question is a message that another server keeps.
type question struct {
	queue   *queue
	now     time.Time
	gate    *Gate
	user    string
	to      []To
	count   bool
	null    bool // nothing is counted, unless the user is stopped
	free    bool // the mail throttle does not judge it
	reaches bool // the reach throttle does
	verdict Verdict
	result

	reachTx *reachTx // of the reach throttle; nil: it counts nobody
}

// reach asks the reach throttle, and reports whether the mail throttle is asked, too.
func (q *question) reach(tx store.MailTx) (more bool, err error) {
	q.reachTx = nil
	if !q.reaches {
		return true, nil
	}
	if q.reachTx, err = q.queue.reach.ask(tx, q.now, q.gate, q.user, q.to); err != nil {
		return false, err
	}
	why := q.reachTx.refused()
	if why != nil {
		q.verdict = Verdict{Refused: true, Why: why}
	}
	return why == nil, nil
}

// keep takes the message into the history of the user, if it was decided here.
func (q *question) keep() error {
	c := q.reachTx
	switch {
	case c == nil:
		return nil
	case q.verdict.Why != nil:
		c.counts.refuse()
	case q.verdict.Refused || !q.verdict.Pass && !q.count: // it is judged once more where it arrives
		q.reachTx = nil
		return nil
	}
	c.commit(c.counts)
	c.stops = q.stopped
	told, err := c.finish()
	q.ready = q.ready || told
	return err
}

// ask says what the mail throttle would do.
func (q *question) ask(t *userTx) (*counted, error) {
	c := q.queue.count(q.gate, &t.user, q.to, nil, q.reachTx)
	if most := t.params.Recipients; most > 0 && len(q.to) > most {
		return nil, q.queue.tooMany(len(q.to), most)
	}
	d := t.mem.state.Peek(&t.params, q.now, c.keys, c.fates)
	q.verdict = Verdict{Pass: d.Delayed == 0 && !d.Refused && !d.Held, Delayed: d.Delayed, Refused: d.Refused &&
		!d.Full}
	if d.Held || d.Full {
		q.verdict.Delayed = len(c.keys)
	}
	if t.shadow || q.null && !q.verdict.Refused {
		q.verdict = Verdict{Pass: true}
	}
	if q.null && q.verdict.Pass && !t.shadow && c.due && q.gate.Mail != nil && !t.mem.state.MayNull(&t.params, q.now) {
		q.verdict = Verdict{Refused: true, Why: ErrNulls}
	}
	return c, nil
}

// withhold adds the recipients that the reach throttle does not let go on.
func (q *question) withhold() {
	if c := q.reachTx; c != nil && !c.shadow && c.verdict.Held > 0 {
		q.verdict.Pass, q.verdict.Withheld = false, c.verdict.Held
	}
}

// peek decides, and writes nothing.
func (q *question) peek(tx store.MailTx) error {
	q.verdict = Verdict{Pass: true}
	more, err := q.reach(tx)
	if err != nil || !more {
		return err
	}
	if !q.free {
		t, err := q.queue.peekUser(tx, q.now, q.gate, q.user)
		if err != nil {
			return err
		}
		if _, err = q.ask(t); err != nil {
			return err
		}
	}
	q.withhold()
	return nil
}

// charge decides, and charges for it.
func (q *question) charge(tx store.MailTx) error {
	q.verdict, q.result = Verdict{Pass: true}, result{}
	more, err := q.reach(tx)
	if err != nil {
		return err
	}
	if !more || q.free {
		q.withhold()
		return q.keep()
	}
	t, err := q.queue.openUser(tx, q.now, q.gate, q.user)
	if err != nil {
		return err
	}
	c, err := q.ask(t)
	if err != nil {
		return err
	}
	q.withhold()
	if !q.null && (q.verdict.Pass || q.count && !q.verdict.Refused) {
		if _, err := t.submit(0, c); err != nil && !errors.Is(err, ErrQueue) { // then it waits, and is not counted
			return err
		}
	}
	if q.null && q.verdict.Pass && c.due {
		t.takeNull()
	}
	if err := t.end(news{}); err != nil {
		return err
	}
	q.result = t.result
	return q.keep()
}

// A Forecast is what one throttle would decide about a message now.
type Forecast struct {
	Throttle string
	Shadow   bool // the message goes on all the same
	Verdict  weir.Verdict
	Reason   weir.Reason
	Text     string        // in a sentence
	Figures  []weir.Figure // how the user stands with it
}

// Foresee says what the reach throttle and the mail throttle of a gate would decide about a message now. Nothing is
// charged. Stamps are not known: no recipient is paid for.
func (q *queue) Foresee(ctx context.Context, now time.Time, gate, user, sender string,
	recipients []string) ([]Forecast, error) {
	g := q.gates.Load().of(gate)
	if g == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, gate)
	}
	if len(recipients) > MaxRecipients {
		return nil, fmt.Errorf("%w: %d, at most %d", ErrRecipients, len(recipients), MaxRecipients)
	}
	ask := question{queue: q, now: now, gate: g, user: user, to: addressed(recipients),
		null: g.passesNull(user, sender, len(recipients)), reaches: g.countsReach(user, sender, len(recipients))}
	return read(ctx, q.env, func(tx store.MailTx) (all []Forecast, err error) {
		var f Forecast
		if g.Reach != nil {
			f, err = ask.foreseeReach(tx)
			all = append(all, f)
		}
		if err == nil && (g.Mail != nil || q.Stopped(gate, user)) {
			f, err = ask.foreseeMail(tx)
			all = append(all, f)
		}
		return all, err
	})
}

func (q *question) foreseeReach(tx store.MailTx) (Forecast, error) {
	f := Forecast{Throttle: q.gate.Reach.Name, Shadow: q.gate.Reach.inShadow(),
		Text: "none of the recipients is counted"}
	if _, err := q.reach(tx); err != nil || q.reachTx == nil {
		return f, err
	}
	v, rules := q.reachTx.verdict, q.reachTx.of.Rules
	for _, w := range q.reachTx.sketch.state.Figures(rules, q.reachTx.of.Population, q.now) {
		limit := int64(w.Limit)
		f.Figures = append(f.Figures, weir.Figure{Rule: w.Window.String(), Unit: "new recipients", Limit: limit,
			Remaining: max(0, limit-int64(w.New+0.5)), Window: weir.NewWindow(w.Window.Length(), weir.NoCalendar)})
	}
	f.Text = fmt.Sprintf("%d of %s new to the user", v.New, recipientsText(v.New+v.Known))
	switch {
	case rules.Exempt(q.user):
		f.Text += "; the user is exempt"
		return f, nil
	case v.Now:
		f.Text += "; the user would be flagged: " + figureText(v.Figure)
	case v.Flagged:
		f.Text += "; the user is flagged"
	}
	switch {
	case v.Refused > 0:
		f.Verdict, f.Reason = weir.Refuse, weir.NewRecipient
		switch v.Cause {
		case reach.TooMany:
			f.Reason = weir.OverLimit
		case reach.AllBlocked:
			f.Reason = weir.Flagged
		}
		f.Text += "; the mail would not be taken"
	case q.reachTx.sketch.withheld+v.Held > rules.Options().Withheld && v.Held > 0:
		f.Verdict, f.Reason = weir.Refuse, weir.LineFull
		f.Text += "; as much of the user's mail is withheld as may be"
	case v.Held > 0:
		f.Verdict, f.Reason = weir.Wait, weir.NewRecipient
		f.Text += fmt.Sprintf("; %d would be withheld until somebody has looked at them", v.Held)
	}
	return f, nil
}

// foreseeMail asks the mail throttle. It does not count recipients that reach withholds.
func (q *question) foreseeMail(tx store.MailTx) (Forecast, error) {
	t, err := q.queue.peekUser(tx, q.now, q.gate, q.user)
	if err != nil {
		return Forecast{}, err
	}
	f, st, p := Forecast{Throttle: t.gate.Throttle, Shadow: t.shadow}, &t.mem.state, &t.params
	c := q.queue.count(q.gate, &t.user, q.to, nil, q.reachTx)
	waiting := len(st.Waiting())
	slack, mSlack := st.Credit(p, q.now)
	f.Figures = []weir.Figure{
		{Rule: "slack", Unit: "messages to one", Limit: int64(p.MaxSlack), Remaining: int64(max(0, slack))},
		{Rule: "mslack", Unit: "recipients of several", Limit: int64(p.MaxMSlack), Remaining: int64(max(0, mSlack))},
		{Rule: "stop", Unit: "waiting", Limit: int64(p.Stop), Remaining: int64(max(0, p.Stop-waiting))},
	}
	if most := p.Recipients; most > 0 && len(q.to) > most {
		f.refuse(weir.TooCostly, fmt.Sprintf("a mail to %d, and at most %d are allowed", len(q.to), most))
		return f, nil
	}
	d := st.Peek(p, q.now, c.keys, c.fates)
	every := p.Every
	if len(c.keys) > 1 {
		every = p.MultiEvery
	}
	since, stopped := st.Stopped()
	switch {
	case stopped && c.due:
		f.refuse(weir.OverLimit, "the user is stopped since "+since.UTC().Format(time.RFC3339))
	case len(c.keys) == 0:
		f.Text = "none of the recipients is counted"
	case q.null && !st.MayNull(p, q.now):
		f.refuse(weir.TooMany, "as many messages without a sender as may pass uncounted")
	case q.null:
		f.Text = "a message without a sender to one recipient is not counted"
	case p.Exempt:
		f.Text = "the user is exempt"
	case d.Full:
		f.refuse(weir.LineFull, "as many recipients of the user wait as may")
	case d.Refused:
		f.refuse(weir.OverLimit, "the user is stopped")
	case d.Held:
		f.Verdict, f.Text = weir.Wait,
			"the mail would be held until somebody has looked at it: it has more new recipients than the queue has "+
				"room for"
	case d.Delayed > 0:
		f.Verdict, f.Reason = weir.Wait, weir.OverLimit
		f.Text = fmt.Sprintf("%d of %s would wait, behind %d; one leaves per %s", d.Delayed,
			recipientsText(len(c.keys)), waiting, weir.Duration(every))
		if d.Stopped {
			f.Text += fmt.Sprintf("; more than %d would wait, and the user would be stopped", p.Stop)
		}
	default:
		f.Text = recipientsText(len(c.keys)) + " would go on at once"
	}
	return f, nil
}

func (f *Forecast) refuse(why weir.Reason, text string) {
	f.Verdict, f.Reason, f.Text = weir.Refuse, why, text
}
