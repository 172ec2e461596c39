package simulate

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxCurves is how many users the growth is shown of.
const maxCurves = 8

// Study lets the thieves go on until they are found or the longest window has passed, and tells what was found.
func (r *ReachReplay) Study() (*ReachStudy, error) {
	if r.study != nil {
		return r.study, nil
	}
	for _, t := range r.thefts {
		if t.user == nil && !t.ended { // at the end, or later than that
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

// each is what a flag stands for: so many for 100 users in 30 days.
func (r *ReachReplay) each() float64 {
	if len(r.users.order) == 0 {
		return 0
	}
	return 100 / float64(len(r.users.order)) / monthsBetween(r.from, r.to)
}

func (r *ReachReplay) monthly(flags int) float64 { return rounded(float64(flags)*r.each(), 1e4) }

func (r *ReachReplay) flagsRange(flags int) Interval { return monthly(flags, r.each(), 1e4) }

// listed returns those who were flagged the most, then those with the most recipients, and the curves of these.
func (r *ReachReplay) listed() (users []ReachUser, curves []ReachCurve) {
	count := func(u *reachUser) float64 {
		if s := u.written(); s != nil {
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

// A reachCurve is how the recipients of a user grew. When it has too many points, every other one goes, and the next
// ones have to be twice as far apart.
type reachCurve struct {
	points []struct{ day, count float32 }
	apart  float32 // days
}

const hours = float32(time.Hour) / float32(24*time.Hour)

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
	c.apart = max(c.apart, 6*hours)
	c.points = append(c.points, struct{ day, count float32 }{day, float32(count)})
}

// drawn is the curve for people to see, up to the end of the log.
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
