package app

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"weir"
	"weir/config"
	"weir/mail/spool"
	"weir/policy"
	"weir/throttle/reach"
)

// A reachJudge is a reach throttle. It judges messages for those who ask; mail is judged by the spool, in the
// transaction that keeps it. What it knows of users is in the store.
type reachJudge struct {
	app        *App
	population reach.Population
	of         atomic.Pointer[spool.Reach]
	underWay   *underWay
}

var _ weir.Throttle = (*reachJudge)(nil)

// newReachJudge makes a judge. It works once enter has told it its throttle.
func newReachJudge(o reach.Options) (*reachJudge, error) {
	rules, err := o.Rules()
	if err != nil {
		return nil, err
	}
	d := &reachJudge{underWay: newUnderWay()}
	d.of.Store(&spool.Reach{Rules: rules, Population: &d.population})
	return d, nil
}

func (d *reachJudge) enter(a *App, name string, shadow *policy.Switch) {
	d.app = a
	of := *d.of.Load()
	of.Name, of.Shadow = name, shadow.Load
	d.of.Store(&of)
	a.metrics.Count("weir_reach_flags_total", 0, name)
}

// configure gives the judge new rules. What was learnt stays.
func (d *reachJudge) configure(o reach.Options) error {
	rules, err := o.Rules()
	if err != nil {
		return err
	}
	of := *d.of.Load()
	of.Rules = rules
	d.of.Store(&of)
	return nil
}

// with returns what the spool will run when options hold that were checked.
func (d *reachJudge) with(o reach.Options) (*spool.Reach, error) {
	rules, err := o.Rules()
	of := *d.of.Load()
	of.Rules = rules
	return &of, err
}

// A messageOut is a message that may be sent, until it is known whether it was.
type messageOut struct {
	of      *spool.Reach
	message spool.Message
}

// messageOf reads the sender and the recipients of a message.
func (d *reachJudge) messageOf(of *spool.Reach, ev *weir.Event) (m spool.Message, ok bool, err error) {
	if ev.Message == nil {
		return m, false, nil
	}
	m.User = d.app.userName(cmp.Or(ev.Message.User, ev.Account)) // as gates for mail know them
	m.Recipients, err = of.Rules.Recipients(ev.Kind, ev.Message)
	return m, len(m.Recipients) > 0, err
}

// Judge says whether a message may be sent. A refused one counts as tried, an admitted one when it is settled as done.
func (d *reachJudge) Judge(ctx context.Context, ev *weir.Event, a *weir.Answer) error {
	m, err := d.judge(ctx, ev, a, true)
	if err != nil || m == nil {
		return err
	}
	of := d.of.Load()
	if a.Verdict == weir.Admit {
		a.Hold = weir.Hold{Ref: &messageOut{of, *m}, At: ev.Time.UnixNano()}
		return nil
	}
	return d.app.post.NoteReach(ctx, ev.Time, of, *m, of.Shadow()) // in shadow it is sent
}

// judge judges a message. Where it may be sent, and take says so, its recipients are under way from now on.
func (d *reachJudge) judge(ctx context.Context, ev *weir.Event, a *weir.Answer, take bool) (*spool.Message, error) {
	of := d.of.Load()
	m, any, err := d.messageOf(of, ev)
	if err != nil {
		// The message lacks what tells recipients apart: whoever asks has to say it.
		a.Verdict, a.Reason, a.Rule = weir.Refuse, weir.NoRecipient, "reach"
		return nil, nil
	}
	if !any {
		return nil, nil
	}
	if m.User == "" {
		a.Verdict, a.Reason, a.Rule = weir.Refuse, weir.NoAccount, "reach"
		return nil, nil
	}
	if d.app.post.Spool == nil {
		return nil, ErrNotServing
	}
	ok, err := d.underWay.judge(m.User, m.Recipients, func(underWay []string) (bool, error) {
		v, err := d.app.post.LookReach(ctx, ev.Time, of, m, underWay)
		if err == nil {
			d.answer(of, ev, a, v)
		}
		return take && a.Verdict == weir.Admit, err
	})
	if err != nil {
		return nil, err
	}
	if !ok {
		a.Verdict, a.Reason, a.Rule = weir.Refuse, weir.Overload, "reach"
		return nil, nil
	}
	return &m, nil
}

func (d *reachJudge) answer(of *spool.Reach, ev *weir.Event, a *weir.Answer, v reach.Verdict) {
	f := figureOf(v)
	a.Figures = append(a.Figures, f)
	if v.Held+v.Refused == 0 {
		return
	}
	// a flag holds that long at least
	a.Verdict, a.Figure, a.Until = weir.Refuse, f, ev.Time.Add(of.Rules.Options().For.Std())
	switch v.Cause {
	case reach.TooMany:
		a.Reason, a.Until = weir.OverLimit, ev.Time.Add(of.Rules.Options().Limit.Per)
	case reach.AllBlocked:
		a.Reason = weir.Flagged
	default:
		a.Reason = weir.NewRecipient
	}
}

func figureOf(v reach.Verdict) weir.Figure {
	limit := int64(v.Limit)
	return weir.Figure{Rule: v.Window.String(), Unit: "new recipients", Limit: limit,
		Remaining: max(0, limit-int64(v.Figure.New+0.5)), Window: weir.NewWindow(v.Window.Length(), weir.NoCalendar)}
}

// Rules lists the rules that answers name: the windows, and the throttle itself where no window decides.
func (*reachJudge) Rules() []string {
	rules := []string{"reach"}
	for _, w := range reach.Windows {
		rules = append(rules, w.String())
	}
	return rules
}

// Settle takes a message into the history of its user that was sent.
func (d *reachJudge) Settle(h weir.Hold, o weir.Outcome) {
	out, ok := h.Ref.(*messageOut)
	if !ok {
		return
	}
	defer d.underWay.over(out.message.User, out.message.Recipients) // when it is noted
	if !o.Done {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), notePatience)
	defer cancel()
	if err := d.app.post.NoteReach(ctx, o.Time, out.of, out.message, true); err != nil {
		d.app.opts.Log.Error("the recipients of a user could not be stored", "throttle", out.of.Name, "err", err)
	}
}

const notePatience = 10 * time.Second

func (d *reachJudge) Peek(ev *weir.Event, a *weir.Answer) {
	ctx, cancel := context.WithTimeout(context.Background(), notePatience)
	defer cancel()
	if _, err := d.judge(ctx, ev, a, false); err != nil {
		a.Verdict, a.Reason = weir.Refuse, weir.Failure
	}
}

// reachThrottle returns the reach throttle of a list as the spool runs it from the next generation on, or nil.
func (c *change) reachThrottle(names []string) (*spool.Reach, error) {
	for _, name := range names {
		if t := c.next.throttle(name); t != nil && t.reach() != nil {
			return t.reach().with(*t.config.Reach)
		}
	}
	return nil, nil
}

func (g *generation) reaches() (all []*spool.Reach) {
	for _, t := range g.throttles {
		if d := t.reach(); d != nil {
			all = append(all, d.of.Load())
		}
	}
	return all
}

func hasReach(c *config.Config) bool {
	for _, t := range c.Throttles {
		if t.Reach != nil {
			return true
		}
	}
	return false
}
