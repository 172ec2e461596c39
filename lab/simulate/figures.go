package simulate

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

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
