package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/identify"
	"weir/mail/spool"
	"weir/policy"
	"weir/store"
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

// maxUnderWay is how many recipients of one user may be under way: admitted, and not yet known to be sent.
const maxUnderWay = 10_000

// underWay remembers the recipients of messages that were admitted and not yet counted. Without it, messages judged at
// the same time would each find their user below the threshold. The zero value is not ready: use newUnderWay.
type underWay struct {
	seed   maphash.Seed
	shards [64]underWayShard
}

type underWayShard struct {
	mu sync.Mutex // held while a message of one of these users is judged
	of map[string][]string
}

func newUnderWay() *underWay { return &underWay{seed: maphash.MakeSeed()} }

func (u *underWay) shard(user string) *underWayShard {
	return &u.shards[maphash.String(u.seed, user)%uint64(len(u.shards))]
}

// judge calls may with the recipients that the user has under way, and adds those of this message if it may be sent.
// Messages of one user are judged one after the other. ok is false if too many are under way.
func (u *underWay) judge(user string, to []string, may func(underWay []string) (bool, error)) (ok bool, err error) {
	s := u.shard(user)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of[user])+len(to) > maxUnderWay {
		return false, nil
	}
	sent, err := may(s.of[user])
	if err == nil && sent {
		if s.of == nil {
			s.of = map[string][]string{}
		}
		s.of[user] = append(s.of[user], to...)
	}
	return true, err
}

// over takes recipients out: the message was sent and noted, or was not sent.
func (u *underWay) over(user string, to []string) {
	s := u.shard(user)
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.of[user]
	for _, person := range to {
		if i := slices.Index(left, person); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	if len(left) == 0 {
		delete(s.of, user)
	} else {
		s.of[user] = left
	}
}

// A reachOps is the reach throttles as operators work them.
type reachOps struct{ *App }

var _ console.Reach = reachOps{}

// Reach returns the reach throttles, or nil where there are none.
func (b backend) Reach() console.Reach {
	if b.post.Spool == nil || !hasReach(b.current.Load().cfg) {
		return nil
	}
	return reachOps(b)
}

func (d reachOps) now() time.Time { return d.opts.Clock.Now() }

// throttle finds a reach throttle by its name. Without one, there must be only one.
func (d reachOps) throttle(name string) (*spool.Reach, error) {
	all := d.current.Load().reaches()
	var names []string
	for _, of := range all {
		if name == of.Name {
			return of, nil
		}
		names = append(names, of.Name)
	}
	switch list := strings.Join(names, ", "); {
	case name == "" && len(all) == 1:
		return all[0], nil
	case name == "":
		return nil, console.Invalid("which throttle? One of " + list)
	default:
		return nil, console.NotFound(fmt.Sprintf("there is no reach throttle %q; one of %s", name, list))
	}
}

func (d reachOps) Flagged(ctx context.Context, limit int) ([]console.ReachView, error) {
	found, err := d.post.FlaggedUsers(ctx, d.now(), limit)
	return reachViews(found, ""), err
}

func reachViews(found []spool.ReachStanding, throttle string) (list []console.ReachView) {
	for i := range found {
		if throttle == "" || found[i].Throttle == throttle {
			list = append(list, reachView(&found[i]))
		}
	}
	return list
}

func reachView(s *spool.ReachStanding) console.ReachView {
	v := console.ReachView{Throttle: s.Throttle, User: s.User, Flagged: s.Flagged, Shadow: s.Shadow, Since: s.Since,
		Why: s.Why, Holds: s.Holds, Exempt: s.Exempt,
		Recipients: int64(math.Round(s.Count)), First: s.First, Windows: []console.ReachWindow{}, Bytes: s.Bytes,
		Problem: s.Problem}
	for _, f := range s.Figures {
		v.Windows = append(v.Windows, console.ReachWindow{Window: f.Window.String(), New: rounded(f.New),
			Limit: rounded(f.Limit)})
	}
	return v
}

// rounded leaves as many digits as an estimate is worth.
func rounded(v float64) float64 { return math.Round(v*100) / 100 }

func (d reachOps) ReachOf(ctx context.Context, user, throttle string) ([]console.ReachView, error) {
	if throttle != "" {
		if _, err := d.throttle(throttle); err != nil {
			return nil, err
		}
	}
	_, list, err := d.known(ctx, user, throttle)
	if err == nil && len(list) == 0 {
		err = console.NotFound(fmt.Sprintf("nothing is known of %q: they have written to nobody", user))
	}
	return list, err
}

// known finds a user. Gates for mail and clients of the decision API know them by the same name.
func (d reachOps) known(ctx context.Context, user, throttle string) (name string, list []console.ReachView,
	err error) {
	name = d.userName(user)
	found, err := d.post.ReachStandings(ctx, d.now(), name)
	return name, reachViews(found, throttle), err
}

// Flag flags a user. An unknown name is likely to be misspelt.
func (d reachOps) Flag(ctx context.Context, by, user, throttle string) (v console.ReachView, err error) {
	of, err := d.throttle(throttle)
	if err != nil {
		return v, err
	}
	name, list, err := d.known(ctx, user, of.Name)
	if err != nil {
		return v, err
	}
	if _, address := identify.ParseAddressUser(name); len(list) == 0 && !address {
		if _, err := d.post.User(ctx, name); errors.Is(err, store.ErrNotFound) {
			return v,
				console.NotFound(fmt.Sprintf("nothing is known of %q: there is no such user, and nothing was sent "+
					"under this name", user))
		} else if err != nil {
			return v, err
		}
	}
	switch {
	case of.Rules.Exempt(name):
		return v, console.Rejected(fmt.Sprintf("%s is exempt from %s (exempt: in the configuration of the throttle)",
			name, of.Name))
	case of.Shadow():
		return v, console.Rejected(fmt.Sprintf("%s is in shadow: nobody is flagged (weir shadow off %s ends that)",
			of.Name, of.Name))
	}
	if err := d.post.FlagReach(ctx, d.now(), by, of.Name, name); err != nil {
		return v, err
	}
	return d.after(ctx, of, name)
}

func (d reachOps) Clear(ctx context.Context, by, user, throttle string) (v console.ReachView, err error) {
	of, err := d.throttle(throttle)
	if err != nil {
		return v, err
	}
	list, err := d.ReachOf(ctx, user, of.Name)
	if err != nil {
		return v, err
	}
	if v = list[0]; !v.Flagged && v.Problem == "" {
		return v, console.Rejected(fmt.Sprintf("%s is not flagged by %s", v.User, of.Name))
	}
	if err := d.post.ClearReach(ctx, d.now(), by, of.Name, v.User); err != nil {
		return v, err
	}
	return d.after(ctx, of, v.User)
}

func (d reachOps) after(ctx context.Context, of *spool.Reach, user string) (v console.ReachView, err error) {
	found, err := d.post.ReachStandings(ctx, d.now(), user)
	if list := reachViews(found, of.Name); len(list) > 0 {
		return list[0], err
	}
	return console.ReachView{Throttle: of.Name, User: user, Windows: []console.ReachWindow{}}, err
}

func (d reachOps) Usual(_ context.Context, throttle string) (u console.ReachUsual, err error) {
	of, err := d.throttle(throttle)
	if err != nil {
		return u, err
	}
	u = console.ReachUsual{Throttle: of.Name, Threshold: of.Rules.Options().Threshold.String(),
		Cohorts: []console.ReachCohort{}}
	for _, c := range of.Population.Cohorts(of.Rules, d.now()) {
		u.Cohorts = append(u.Cohorts, console.ReachCohort{Window: c.Window.String(), Age: c.Age, Size: c.Size,
			Samples: c.Samples,
			Usual:   rounded(c.Usual), Limit: rounded(c.Limit)})
	}
	return u, nil
}
