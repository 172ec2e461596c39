package simulate

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"gonum.org/v1/gonum/mathext"

	"weir"
	"weir/throttle/outbreak"
)

// month is what stops are counted in.
const month = 30 * 24 * time.Hour

// A tally counts the events of one column. It has whole numbers only, so that the order of adding does not matter.
type tally struct {
	delayed, stops, waited     int
	delayedUsers, stoppedUsers int
	large                      int
	left                       delaySum
	fine                       []uint32 // delays by their second, roughly
	line                       timeline
}

// A userTally is the same for one user.
type userTally struct {
	delayed, stops, most int
	left                 delaySum
}

// A delaySum adds up the delays of recipients who left by the clock, in milliseconds.
type delaySum struct{ count, sum, longest int64 }

func (s *delaySum) add(o delaySum) {
	s.count, s.sum, s.longest = s.count+o.count, s.sum+o.sum, max(s.longest, o.longest)
}

// mean is in seconds.
func (s *delaySum) mean() float64 {
	if s.count == 0 {
		return 0
	}
	return rounded(float64(s.sum)/1000/float64(s.count), 1e3)
}

// leaves counts a delay.
func (t *tally) leaves(ms int64) {
	t.left.add(delaySum{1, ms, ms})
	slot := fineSlot(uint64(ms / 1000))
	t.grow(slot + 1)
	t.fine[slot]++
}

// grow makes room for so many slots.
func (t *tally) grow(slots int) {
	if slots > len(t.fine) {
		t.fine = append(t.fine, make([]uint32, slots-len(t.fine))...)
	}
}

// fineSlot is the slot of a number of seconds: each has its own up to 128, and then 64 share an octave.
func fineSlot(seconds uint64) int {
	if seconds < 128 {
		return int(seconds)
	}
	octave := bits.Len64(seconds) - 7 // from 1
	return octave*64 + int(seconds>>octave)
}

// fineSeconds is the least number of seconds of a slot.
func fineSeconds(slot int) uint64 {
	if slot < 128 {
		return uint64(slot)
	}
	octave := slot/64 - 1
	return uint64(slot-octave*64) << octave
}

func (t *tally) add(o *tally) {
	t.delayed += o.delayed
	t.stops += o.stops
	t.waited += o.waited
	t.delayedUsers += o.delayedUsers
	t.stoppedUsers += o.stoppedUsers
	t.large += o.large
	t.left.add(o.left)
	t.grow(len(o.fine))
	for i, n := range o.fine {
		t.fine[i] += n
	}
	t.line.join(&o.line)
}

// median is the delay that half of those who waited did not exceed, to the second up to two minutes, and then to 2 %.
func (t *tally) median() float64 {
	seen := int64(0)
	for slot, n := range t.fine {
		if seen += int64(n); 2*seen >= t.left.count && seen > 0 {
			return float64(fineSeconds(slot))
		}
	}
	return 0
}

// found adds up what the workers counted.
func (r *Replay) found() *Study {
	sums := make([]tally, len(r.columns))
	for i := range sums {
		for _, w := range r.workers {
			sums[i].add(&w.tallies[i])
			w.tallies[i] = tally{}
		}
	}
	figures := make([]Figures, len(sums))
	for i := range sums {
		figures[i] = r.figures(&sums[i])
	}
	s := &Study{
		Figures: figures[0], Params: paramsInfo(r.general), Worst: r.worst(), Delays: sums[0].delays(),
		Log:   LogInfo{From: r.from, To: r.to, Mails: r.mails, Users: len(r.users.order)},
		Queue: sums[0].line.overDay(r.from, r.to), QueueEvery: sums[0].line.every(),
	}
	for i, spec := range r.o.Sweeps {
		sweep := Sweep{Parameter: spec.Parameter}
		for j, v := range spec.Values {
			sweep.Points = append(sweep.Points, SweepPoint{Value: v.Text, X: v.x(), Figures: figures[r.sweeps[i][j]]})
		}
		s.Sweeps = append(s.Sweeps, sweep)
	}
	if r.o.Share > 0 {
		tried := make([]candidate, len(r.grid))
		for i, at := range r.grid {
			tried[i] = candidate{params: r.columns[at], figures: figures[at]}
		}
		s.Advice = advise(r.o.Share, tried)
		if text := s.loudest(); text != "" {
			s.Advice.Text = append(s.Advice.Text, text)
		}
	}
	return s
}

func (r *Replay) figures(t *tally) Figures {
	f := Figures{
		Mails: r.mails, Delayed: t.delayed, Stops: t.stops, Users: len(r.users.order), Recipients: r.recipients,
		Waited:      t.waited,
		MedianDelay: t.median(), MaxDelay: seconds(t.left.longest), MostWaiting: t.line.most(),
		StoppedUsers: t.stoppedUsers, DelayedUsers: t.delayedUsers, Large: t.large, Left: int(t.left.count),
	}
	if r.mails > 0 {
		f.DelayedShare = rounded(float64(t.delayed)/float64(r.mails), 1e6)
	}
	f.MeanDelay = t.left.mean()
	if len(r.users.order) > 0 {
		each := 1 / float64(len(r.users.order)) / monthsBetween(r.from, r.to)
		f.StopsMonthly = rounded(float64(t.stops)*each, 1e6)
		f.StopsRange = monthly(t.stops, each, 1e6)
	}
	return f
}

// monthsBetween is the length of a log in months of 30 days. Less than a day says nothing about a month.
func monthsBetween(from, to time.Time) float64 {
	return float64(max(to.Sub(from), 24*time.Hour)) / float64(month)
}

// monthly is the interval of a number of events, each of which stands for so many in a month.
func monthly(n int, each, digits float64) Interval {
	i := poisson(n).times(each)
	return Interval{rounded(i[0], digits), rounded(i[1], digits)}
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// maxDelayPoints is about how many points the distribution of delays has at most.
const maxDelayPoints = 100

// delays is the distribution of delays, with the precision of median.
func (t *tally) delays() (all []DelayPoint) {
	seen, shown := int64(0), int64(0)
	for slot, n := range t.fine {
		if seen += int64(n); n == 0 || seen < t.left.count && maxDelayPoints*(seen-shown) < t.left.count {
			continue
		}
		shown = seen
		all = append(all, DelayPoint{float64(fineSeconds(slot)), rounded(float64(seen)/float64(t.left.count), 1e4)})
	}
	if n := len(all); n > 0 {
		all[n-1] = DelayPoint{seconds(t.left.longest), 1}
	}
	return all
}

// worst are the users who would notice most: by stops, then delayed mails, then the longest delay.
func (r *Replay) worst() []UserStudy {
	noticed := []*replayUser{}
	for _, u := range r.users.order {
		if u.delayed > 0 {
			noticed = append(noticed, u)
		}
	}
	slices.SortFunc(noticed, func(a, b *replayUser) int {
		return cmp.Or(cmp.Compare(b.stops, a.stops), cmp.Compare(b.delayed, a.delayed),
			cmp.Compare(b.left.longest, a.left.longest), cmp.Compare(a.name, b.name))
	})
	all := []UserStudy{}
	for _, u := range noticed[:min(len(noticed), MaxWorst)] {
		all = append(all, UserStudy{
			User: u.name, Mails: u.mails, Delayed: u.delayed, Stops: u.stops,
			MeanDelay: u.left.mean(), MaxDelay: seconds(u.left.longest), Most: u.most,
		})
	}
	return all
}

func paramsInfo(p outbreak.Params) ParamsInfo {
	info := ParamsInfo{
		Period: weir.Duration(p.Every).String(), WorkingSet: p.WorkingSet, MaxSlack: p.MaxSlack, MaxMSlack: p.MaxMSlack,
		Stop: p.Stop, Mail: p,
	}
	if p.MultiEvery != p.Every {
		info.MultiPeriod = weir.Duration(p.MultiEvery).String()
	}
	return info
}

// How many different moments a timeline tells apart. Where more happens, moments become longer: 2 seconds, 4 … The line
// of the main parameters is shown over the day, and has room for half a million waiting recipients. The dozens of
// values tried beside them need only the most.
const (
	mainChanges = 1 << 20
	maxChanges  = 1 << 14
)

// A timeline is how many recipients of all users wait, from moment to moment. It takes changes in any order, so that
// users may be run one after the other, and in parallel.
type timeline struct {
	changes []change
	shift   uint // a moment is 1 << shift seconds long
	bound   int  // at most so many changes; 0: maxChanges
}

// A change is what happens in one moment: recipients come and leave by the clock, then a stopped user releases.
type change struct {
	at       uint32 // in moments since 1970
	came     int32  // less those who left by the clock
	released int32
}

// add notes that recipients came, left (a negative number) or were released.
func (l *timeline) add(at int64, came, released int) {
	l.changes = append(l.changes, change{l.moment(at / int64(time.Second)), int32(came), int32(released)})
	if len(l.changes) >= 2*l.limit() {
		l.tidy()
	}
}

func (l *timeline) moment(second int64) uint32 { return uint32(min(second, math.MaxUint32) >> l.shift) }

// limit is how many changes there is room for.
func (l *timeline) limit() int { return cmp.Or(l.bound, maxChanges) }

// every is how many seconds a moment has.
func (l *timeline) every() int { return 1 << l.shift }

// tidy joins changes of the same moment, and makes moments longer until the changes have room. In the end moments are
// as long as all changes together need, in whatever order they were added and joined.
func (l *timeline) tidy() {
	slices.SortFunc(l.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	for l.merge(); len(l.changes) > l.limit(); l.merge() {
		l.coarsen(l.shift + 1)
	}
}

func (l *timeline) merge() {
	kept := l.changes[:0]
	for _, c := range l.changes {
		if n := len(kept); n > 0 && kept[n-1].at == c.at {
			kept[n-1].came += c.came
			kept[n-1].released += c.released
			continue
		}
		kept = append(kept, c)
	}
	l.changes = kept
}

func (l *timeline) coarsen(shift uint) {
	for i := range l.changes {
		l.changes[i].at >>= shift - l.shift
	}
	l.shift = shift
}

// join takes the changes of another timeline, which must not be used afterwards.
func (l *timeline) join(o *timeline) {
	shift := max(l.shift, o.shift)
	l.coarsen(shift)
	o.coarsen(shift)
	l.changes = append(l.changes, o.changes...)
	l.bound = max(l.bound, o.bound)
	l.tidy()
}

// most is how many waited at once.
func (l *timeline) most() int {
	most, level := 0, 0
	for _, c := range l.changes {
		level += int(c.came)
		most = max(most, level)
		level -= int(c.released)
	}
	return most
}

// minutes of a day, and its seconds.
const (
	dayMinutes = 24 * 60
	daySeconds = 24 * 60 * 60
)

// overDay is how many wait in each minute of the day: on average over all days of the log, and at most. The day is that
// of the log's own times. What still waits a day after the end of the log is left out.
func (l *timeline) overDay(from, to time.Time) []QueuePoint {
	points := make([]QueuePoint, dayMinutes)
	sums := make([]float64, dayMinutes) // recipients times seconds
	for i := range points {
		points[i].Minute = i
	}
	end := to.Unix() + daySeconds
	level := 0
	for i, c := range l.changes {
		at := int64(c.at) << l.shift
		level += int(c.came)
		if at > end {
			break
		}
		minute := minuteOf(at, from.Location())
		points[minute].Most = max(points[minute].Most, level)
		level -= int(c.released)
		next := end
		if i+1 < len(l.changes) {
			next = min(end, int64(l.changes[i+1].at)<<l.shift)
		}
		for level > 0 && at < next {
			minute := minuteOf(at, from.Location())
			stay := min(next, at-at%60+60) - at
			sums[minute] += float64(level) * float64(stay)
			points[minute].Most = max(points[minute].Most, level)
			at += stay
		}
	}
	days := 1 + dayOf(to, from.Location()) - dayOf(from, from.Location())
	for i := range points {
		points[i].Mean = rounded(sums[i]/60/float64(days), 1e4)
	}
	return points
}

// minuteOf is the minute of the day of a second since 1970.
func minuteOf(second int64, zone *time.Location) int {
	t := time.Unix(second, 0).In(zone)
	return t.Hour()*60 + t.Minute()
}

// dayOf numbers the days of a calendar.
func dayOf(t time.Time, zone *time.Location) int64 {
	year, month, day := t.In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}

// An Interval is a 95% confidence interval of a rate that was seen in a sample. It shows how much of a figure from a
// few users is chance. Events are taken as independent: where one user has many of them, the truth is less certain
// still.
type Interval [2]float64

// z is the quantile of the normal distribution that leaves 2.5% above it.
const z = 1.959963984540054

// wilson is Wilson's interval of a share: n of all.
func wilson(n, all int) Interval {
	if all <= 0 {
		return Interval{0, 1}
	}
	size, p := float64(all), ratio(n, all)
	middle := (p + z*z/(2*size)) / (1 + z*z/size)
	half := z / (1 + z*z/size) * math.Sqrt(p*(1-p)/size+z*z/(4*size*size))
	return Interval{max(0, min(p, middle-half)), min(1, max(p, middle+half))}
}

// poisson is the exact interval (Garwood's) of how many events are expected where n were counted.
func poisson(n int) Interval {
	events, low := float64(max(n, 0)), 0.0
	if n > 0 {
		low = mathext.GammaIncRegInv(events, 0.025)
	}
	return Interval{low, mathext.GammaIncRegInv(events+1, 0.975)}
}

// times is the interval of the events for each of so many units, such as users and months.
func (i Interval) times(f float64) Interval { return Interval{i[0] * f, i[1] * f} }

// text writes both ends.
func (i Interval) text(of func(float64) string) string { return of(i[0]) + " to " + of(i[1]) }
