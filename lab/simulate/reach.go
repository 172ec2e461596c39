package simulate

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/throttle/reach"
)

// Bounds of what is tried.
const (
	MaxThresholds = 16
	MaxThefts     = 16
	MaxTheftRate  = 100_000 // new recipients in an hour
)

// Thresholds returns the thresholds that are tried by default.
func Thresholds() []reach.Threshold {
	return []reach.Threshold{{}, {Share: 2}, {Share: 1}, {Count: 50}, {Count: 100}}
}

// ReachOptions say what is tried on a log.
type ReachOptions struct {
	Reach      reach.Options     // the throttle; the study is about its threshold
	Thresholds []reach.Threshold // others, to compare it with; nil for those that Thresholds returns
	Steal      []Theft           // accounts that are stolen, to see when they are found
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o ReachOptions) Validate() error {
	var m weir.Mistakes
	m.Under("reach", o.Reach.Validate())
	if len(o.Thresholds) > MaxThresholds {
		m.Add("thresholds", fmt.Sprintf("%d are too many", len(o.Thresholds)), fmt.Sprintf("at most %d", MaxThresholds))
	}
	for i, t := range o.Thresholds {
		m.Under(fmt.Sprintf("thresholds[%d]", i), o.with(t).Validate())
	}
	if len(o.Steal) > MaxThefts {
		m.Add("steal", fmt.Sprintf("%d stolen accounts are too many", len(o.Steal)),
			fmt.Sprintf("at most %d", MaxThefts))
	}
	for i, t := range o.Steal {
		if !(t.PerHour > 0 && t.PerHour <= MaxTheftRate) {
			m.Add(fmt.Sprintf("steal[%d].per_hour", i), fmt.Sprintf("%v is out of bounds", t.PerHour),
				fmt.Sprintf("more than 0, and up to %d", MaxTheftRate))
		}
		if t.After < 0 {
			m.Add(fmt.Sprintf("steal[%d].after", i), "a time before the log",
				"a time from its start, or nothing for its end")
		}
	}
	return m.Err()
}

// with returns the throttle with another threshold. Only a threshold that is a share has an option against.
func (o ReachOptions) with(t reach.Threshold) reach.Options {
	r := o.Reach
	r.Threshold = t
	if t.Share == 0 {
		r.Against = ""
	}
	return r
}

// A ReachReplay runs a mail log through a reach throttle, under several thresholds at once. Add takes the log entry by
// entry, in order; Study returns what would have happened. Messages that are held stay held, so their recipients do not
// become known. Flags end by themselves. A ReachReplay is not safe for concurrent use.
type ReachReplay struct {
	o       ReachOptions
	columns []*reachColumn // the threshold of the options first
	all     *reach.Rules   // these hold nobody, and always count the new recipients of an hour and of a day
	users   users[reachUser]
	thefts  []*theft

	people addressed // the recipients of the current message
	logSpan
	study *ReachStudy
}

// A reachColumn is what one threshold does to the log.
type reachColumn struct {
	reach.Threshold
	rules *reach.Rules
	usual reach.Population // what is usual among its users

	flags, flagged, held int
}

// A reachUser is what is kept of a user. A state that was never flagged depends on no threshold, so all columns that
// never flagged the user share one. A column that did has a state of its own, as it held some messages.
type reachUser struct {
	name               string
	mails, flags, held int
	hour, day          float64        // the most new recipients in one
	shared             *reach.State   // of the columns that never flagged the user
	own                []*reach.State // of the others, by column; nil before the first flag
	withHeld           *reach.State   // knows recipients of held messages, too; nil before the first column flags
	curve              reachCurve
}

// complete is a state that knows everybody the user wrote to, held or not.
func (u *reachUser) complete() *reach.State {
	if u.withHeld != nil {
		return u.withHeld
	}
	return u.state(0)
}

// state is the user's state in a column.
func (u *reachUser) state(column int) *reach.State {
	if u.own != nil && u.own[column] != nil {
		return u.own[column]
	}
	return u.shared
}

// NewReachReplay returns a replay without entries.
func NewReachReplay(o ReachOptions) (*ReachReplay, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &ReachReplay{o: o, users: newUsers[reachUser]()}
	if o.Thresholds == nil {
		o.Thresholds = Thresholds()
	}
	for _, t := range append([]reach.Threshold{o.Reach.Threshold}, o.Thresholds...) {
		if slices.ContainsFunc(r.columns, func(c *reachColumn) bool { return c.Threshold == t }) {
			continue
		}
		rules, err := o.with(t).Rules()
		if err != nil {
			return nil, err
		}
		r.columns = append(r.columns, &reachColumn{Threshold: t, rules: rules})
	}
	with := o.Reach
	with.Windows, with.Over = []reach.Window{reach.Hour, reach.Day}, reach.Flag
	var err error
	if r.all, err = with.Rules(); err != nil {
		return nil, err
	}
	for i, t := range o.Steal {
		r.thefts = append(r.thefts, &theft{Theft: t, number: uint64(i)})
	}
	return r, nil
}

// Add takes the next message of the log.
func (r *ReachReplay) Add(e Entry) error {
	if err := r.check(e, r.study != nil); err != nil {
		return err
	}
	u, err := r.users.find(e.User, func(name string) *reachUser { return &reachUser{name: name} })
	if err != nil {
		return err
	}
	r.extend(e.At)
	if err := r.steal(r.to); err != nil {
		return err
	}
	u.mails++
	keys := r.recipients(e.To)
	if len(keys) == 0 {
		return nil
	}
	if u.shared == nil && u.own == nil {
		u.shared = new(reach.State)
	}
	if r.columns[0].rules.Exempt(u.name) {
		u.shared.Commit(r.all, nil, r.to, keys, nil) // what is usual is not learnt from exempt users
		u.measure(r, r.to)
		return nil
	}
	for _, t := range r.thefts {
		if t.user == u {
			t.commit(r, r.to, keys)
		}
	}
	return r.commit(u, r.to, keys)
}

// recipients returns the keys of the recipients that count, each once.
func (r *ReachReplay) recipients(to []string) []uint64 {
	r.people.begin(len(to))
	for _, address := range to {
		if normal, counted := r.all.Recipient(address); counted {
			r.people.add(recipientKey(normal))
		}
	}
	return r.people.keys
}

// recipientKey is FNV-1a, mixed so that every bit depends on all. It is the same in every run. It needs no secret:
// nobody chooses recipients to deceive a simulation.
func recipientKey(normal string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(normal) {
		h = (h ^ uint64(normal[i])) * 0x100000001b3
	}
	return mixed(h ^ uint64(len(normal))<<48)
}

// mixed spreads a number over all 64 bits.
func mixed(x uint64) uint64 {
	for range 2 {
		hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
		x = hi ^ lo ^ x>>32
	}
	return x
}

// commit gives a message to all columns. If it is the first that a column flags, the column gets a copy of the shared
// state, as it was before the message.
func (r *ReachReplay) commit(u *reachUser, at time.Time, keys []uint64) error {
	var sharing []int  // columns that do not flag the user
	nobodyNew := false // then no column flags the user
	for i, c := range r.columns {
		own := u.state(i)
		if own == u.shared {
			v := reach.Verdict{}
			if !nobodyNew {
				v = own.Judge(c.rules, &c.usual, at, keys, nil)
				nobodyNew = v.New == 0
			}
			if !v.Flagged {
				sharing = append(sharing, i)
				continue
			}
			separate, err := cloned(own)
			if err != nil {
				return err
			}
			if u.own == nil {
				u.own = make([]*reach.State, len(r.columns))
			}
			if i == 0 { // until now no message was held, so the shared state is complete
				if u.withHeld, err = cloned(own); err != nil {
					return err
				}
			}
			own, u.own[i] = separate, separate
			c.flagged++
		}
		v, samples := own.Commit(c.rules, &c.usual, at, keys, nil)
		c.usual.Observe(at, samples)
		c.held += v.Held + v.Refused
		if v.Now {
			c.flags++
		}
		if i == 0 {
			u.held += v.Held + v.Refused
			if v.Now {
				u.flags++
			}
		}
	}
	if len(sharing) == 0 {
		u.shared = nil
	} else {
		c := r.columns[sharing[0]]
		_, samples := u.shared.Commit(c.rules, &c.usual, at, keys, nil)
		for _, i := range sharing {
			r.columns[i].usual.Observe(at, samples)
		}
	}
	if u.withHeld != nil {
		u.withHeld.Commit(r.all, nil, at, keys, nil)
	}
	if !nobodyNew {
		u.measure(r, at)
	}
	return nil
}

// measure updates the figures about the people that a user has written to.
func (u *reachUser) measure(r *ReachReplay, at time.Time) {
	s := u.complete()
	u.curve.add(at.Sub(r.from), s.Count())
	for _, f := range s.Figures(r.all, nil, at) {
		if f.Window == reach.Hour {
			u.hour = max(u.hour, f.New)
		} else {
			u.day = max(u.day, f.New)
		}
	}
}

func cloned(s *reach.State) (*reach.State, error) {
	state, err := s.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	known, err := s.AppendKnown(nil)
	if err != nil {
		return nil, err
	}
	c := new(reach.State)
	if err := c.UnmarshalBinary(state); err != nil {
		return nil, err
	}
	return c, c.SetKnown(known)
}

// maxCurves is of how many users the growth is shown.
const maxCurves = 8

// Study lets the thieves go on until they are found or the longest window has passed, and returns the result.
func (r *ReachReplay) Study() (*ReachStudy, error) {
	if r.study != nil {
		return r.study, nil
	}
	for _, t := range r.thefts {
		if t.user == nil && !t.ended { // it is to begin at the end of the log or later
			if err := t.start(r, r.to); err != nil {
				return nil, err
			}
		}
		t.run(r, r.to.Add(r.theftTime()))
	}
	first := r.columns[0]
	s := &ReachStudy{Flags: first.flags, FlaggedUsers: first.flagged, FlagsMonthly: r.monthly(first.flags),
		FlagsRange: r.flagsRange(first.flags), Held: first.held}
	for i, c := range r.columns {
		t := Threshold{Threshold: c.String(), Flags: c.flags, FlagsMonthly: r.monthly(c.flags),
			FlagsRange: r.flagsRange(c.flags)}
		for _, theft := range r.thefts {
			t.FoundAfter = append(t.FoundAfter, theft.found[i])
		}
		s.Thresholds = append(s.Thresholds, t)
	}
	for _, t := range r.thefts {
		stolen := Stolen{User: t.User, PerHour: t.PerHour, FoundAfter: t.found[0], After: -1, Problem: t.problem}
		if t.user != nil {
			stolen.User = t.user.name
		}
		if stolen.FoundAfter >= 0 {
			stolen.After = t.after.Seconds()
		}
		s.Stolen = append(s.Stolen, stolen)
	}
	s.Users, s.Growth = r.listed()
	r.study = s
	return s, nil
}

// perFlag is by how much one flag in the log raises the flags per 100 users in 30 days.
func (r *ReachReplay) perFlag() float64 {
	if len(r.users.order) == 0 {
		return 0
	}
	return 100 / float64(len(r.users.order)) / monthsBetween(r.from, r.to)
}

func (r *ReachReplay) monthly(flags int) float64 { return rounded(float64(flags)*r.perFlag(), 1e4) }

func (r *ReachReplay) flagsRange(flags int) Interval { return monthly(flags, r.perFlag(), 1e4) }

// listed returns the users with the most flags, and the curves of the users with the most recipients.
func (r *ReachReplay) listed() (users []ReachUser, curves []ReachCurve) {
	count := func(u *reachUser) float64 {
		if s := u.complete(); s != nil {
			return s.Count()
		}
		return 0
	}
	byCount := func(a, b *reachUser) int {
		return cmp.Or(cmp.Compare(count(b), count(a)), strings.Compare(a.name, b.name))
	}
	all := slices.SortedFunc(slices.Values(r.users.order), byCount)
	for _, u := range all[:min(len(all), maxCurves)] {
		curves = append(curves, u.curve.drawn(u.name, r.to.Sub(r.from), count(u)))
	}
	slices.SortStableFunc(all, func(a, b *reachUser) int { return cmp.Compare(b.flags, a.flags) })
	for _, u := range all[:min(len(all), MaxWorst)] {
		users = append(users, ReachUser{
			User: u.name, Mails: u.mails, Recipients: rounded(count(u), 10), MostHour: rounded(u.hour, 10),
			MostDay: rounded(u.day, 10),
			Flags:   u.flags, Held: u.held,
		})
	}
	return users, curves
}

// maxPoints is how many points of a curve are kept.
const maxPoints = 64

// A reachCurve is how the recipients of a user grew in number. When it has too many points, every other one is dropped,
// and the next ones must be twice as far apart.
type reachCurve struct {
	points []struct{ day, count float32 }
	apart  float32 // days
}

// leastApart is how far apart points are at least, in days: six hours.
const leastApart = float32(0.25)

func (c *reachCurve) add(since time.Duration, count float64) {
	day := float32(since.Hours() / 24)
	if n := len(c.points); n > 0 {
		last := &c.points[n-1]
		if float32(count) == last.count {
			return
		}
		if day-last.day < c.apart {
			last.count = float32(count)
			return
		}
		if n == maxPoints {
			for i := range maxPoints / 2 {
				c.points[i] = c.points[2*i]
			}
			c.points = c.points[:maxPoints/2]
			c.apart *= 2
		}
	}
	c.apart = max(c.apart, leastApart)
	c.points = append(c.points, struct{ day, count float32 }{day, float32(count)})
}

// drawn is the curve as the study shows it, up to the end of the log.
func (c *reachCurve) drawn(user string, until time.Duration, count float64) ReachCurve {
	curve := ReachCurve{User: user}
	add := func(day, count float64) {
		curve.Day, curve.Sum = append(curve.Day, rounded(day, 100)), append(curve.Sum, rounded(count, 10))
	}
	for _, p := range c.points {
		add(float64(p.day), float64(p.count))
	}
	add(until.Hours()/24, count)
	return curve
}
