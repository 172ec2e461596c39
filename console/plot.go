package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"weir"
	"weir/internal/plot"
)

// A span is how much of the past a plot shows.
type span struct {
	seconds, tick, gap float64
	length             string // in words
	ago                string // its beginning
}

func spanOf(hour bool) span {
	step, n, tick := HistoryEvery.Seconds(), HistoryLength, 60.0
	length, ago := "the last 5 minutes", "5 minutes ago"
	if hour {
		step, n, tick, length, ago = HourEvery.Seconds(), HourLength, 600, "the last hour", "an hour ago"
	}
	// A line does not bridge more than a missing sample.
	return span{step * float64(n), tick, 2.5 * step, length, ago}
}

type gatePlots struct {
	Gate, Address string
	Plots         []*gatePlot
}

// A gatePlot shows one quantity over the last minutes.
type gatePlot struct {
	plot.Plot
	Unit string   // what its height means
	Now  string   // the latest value
	Most string   // the highest; empty where that says little
	Each []string // the latest value of each series, where there are several
}

// plotsOf draws the plots of a gate: its load, the work that it asks for, and the requests admitted and turned away.
func (sp span) plotsOf(h GateHistory) gatePlots {
	name := cmp.Or(h.Address, h.Gate)
	g := gatePlots{Gate: h.Gate, Address: h.Address, Plots: []*gatePlot{sp.loadPlot(h, name)}}
	if h.Stamps != "" {
		g.Plots = append(g.Plots, sp.workPlot(h, name))
	}
	g.Plots = append(g.Plots, sp.letInPlot(h, name), sp.awayPlot(h, name))
	h.orNothing(name, g.Plots)
	return g
}

// orNothing says so where there are no figures yet.
func (h GateHistory) orNothing(name string, plots []*gatePlot) {
	if len(h.Samples) > 0 {
		return
	}
	for _, p := range plots {
		p.Now, p.Most, p.Each = "no figures yet", "", nil
		p.Says = fmt.Sprintf("%s at %s: no figures yet.", p.Title, name)
	}
}

// draw makes a plot of values from 0 to top that ends at a time.
func (sp span) draw(title, unit, says string, ends time.Time, top float64, ticks []plot.Tick,
	lines ...plot.Series) *gatePlot {
	p := &gatePlot{Unit: unit, Plot: plot.Plot{Title: title, Says: says, Series: lines,
		X: plot.Axis{Lo: -sp.seconds, Grid: true}, Y: plot.Axis{Hi: top, Ticks: ticks}}}
	if !ends.IsZero() {
		p.Ends = ends.UnixMilli()
	}
	for ago := -sp.seconds; ago <= 0; ago += sp.tick {
		p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: ago})
	}
	first, last := &p.X.Ticks[0], &p.X.Ticks[len(p.X.Ticks)-1]
	first.Text, first.Anchor = sp.ago, "start"
	last.Text, last.Anchor = "now", "end"
	p.Draw()
	return p
}

// past is a series of a plot of a gate. words writes a value for those who ask what it was. Samples that are too old,
// or from before the clock was set back, are left out.
func (sp span) past(h GateHistory, class string, of func(Sample) float64, words func(Sample) string) plot.Series {
	s := plot.Series{Class: class, Sign: plot.None, Area: true, Gap: sp.gap}
	last, before := h.Last().At, math.Inf(-1)
	for _, v := range h.Samples {
		if x := -last.Sub(v.At).Seconds(); x >= -sp.seconds && x <= 0 && x >= before {
			s.Points = append(s.Points, plot.Point{X: x, Y: of(v), Value: words(v)})
			before = x
		}
	}
	return s
}

// rates is a series of what comes in a second.
func (sp span) rates(h GateHistory, class string, of func(Sample) float64) plot.Series {
	return sp.past(h, class, of, func(s Sample) string { return rate(of(s)) + "/s" })
}

func (sp span) loadPlot(h GateHistory, name string) *gatePlot {
	of := func(s Sample) float64 { return s.Load }
	most, now := highest(h, of), percent(h.Last().Load)
	top := max(1.25, plot.RoundUp(most))
	ticks := []plot.Tick{{Value: 1, Text: percent(1), Limit: true}}
	if top > 1.25 {
		ticks = append(ticks, plot.Tick{Value: top, Text: percent(top)})
	}
	if 1/top > 0.15 { // else it would overlap that of the limit
		ticks = append(ticks, plot.Tick{Text: percent(0)})
	}
	says := fmt.Sprintf("Load of %s over %s: now %s of the capacity, at most %s.", name, sp.length, now, percent(most))
	p := sp.draw("Load", "of the capacity", says, h.Last().At, top, ticks,
		sp.past(h, "load", of, func(s Sample) string { return percent(s.Load) }))
	p.Now, p.Most = now, percent(most)
	return p
}

// lowest is the work at the bottom of the plot of work, as time on a phone. Less work than that is drawn there, too.
const lowest = 100 * time.Microsecond

func (sp span) workPlot(h GateHistory, name string) *gatePlot {
	most := time.Duration(highest(h, func(s Sample) float64 { return float64(s.Takes) }))
	decades := max(5, math.Ceil(math.Log10(float64(most)/float64(lowest))))
	work := sp.past(h, "work", func(s Sample) float64 {
		if s.Work == 0 {
			return 0
		}
		// Work that is asked for is always visible, however little it is.
		return max(math.Log10(float64(max(s.Takes, 1))/float64(lowest)), 0.2)
	}, func(s Sample) string { return price(s.Work, s.Takes) })
	work.Steps = true
	last := h.Last()
	says := fmt.Sprintf("Work asked for a stamp at %s over %s: now %s", name, sp.length, asked(last.Work, last.Takes))
	if most > 0 {
		says += fmt.Sprintf(", at most %s on a phone", about(most))
	}
	ticks := []plot.Tick{{Text: bits(0)}}
	for d, t := 1.0, 10*lowest; d <= decades; d, t = d+1, 10*t {
		ticks = append(ticks, plot.Tick{Value: d, Text: weir.Duration(t).String()})
	}
	p := sp.draw("Work asked", "as time on a phone", says+".", last.At, decades, ticks, work)
	p.Now = price(last.Work, last.Takes)
	if most > 0 {
		p.Most = about(most)
	}
	return p
}

func (sp span) letInPlot(h GateHistory, name string) *gatePlot {
	top := rateTop(highest(h, func(s Sample) float64 { return max(s.Stamped, s.Pool) }))
	stamped := sp.rates(h, "stamped", func(s Sample) float64 { return s.Stamped })
	pool := sp.rates(h, "pool", func(s Sample) float64 { return s.Pool })
	stamped.Name, pool.Name, pool.Area = "stamped", "pool", false
	last := h.Last()
	says := fmt.Sprintf("Let in at %s over %s: now %s requests a second with a stamp and %s from the general pool.",
		name, sp.length, rate(last.Stamped), rate(last.Pool))
	p := sp.draw("Let in", "requests a second", says, last.At, top, rateTicks(top), stamped, pool)
	p.Now, p.Each = rate(last.Stamped+last.Pool)+"/s", []string{rate(last.Stamped), rate(last.Pool)}
	return p
}

func (sp span) awayPlot(h GateHistory, name string) *gatePlot {
	of := func(s Sample) float64 { return s.TurnedAway }
	most, now := highest(h, of), rate(h.Last().TurnedAway)
	top := rateTop(most)
	says := fmt.Sprintf("Turned away at %s over %s, asked to pay or refused: now %s requests a second, at most %s.",
		name, sp.length, now, rate(most))
	p := sp.draw("Turned away", "requests a second", says, h.Last().At, top, rateTicks(top), sp.rates(h, "away", of))
	p.Now, p.Most = now+"/s", rate(most)+"/s"
	return p
}

// roomPlot draws who waits: requests that weir holds, and people in the waiting room.
func (sp span) roomPlot(h GateHistory, name string) *gatePlot {
	count := func(class, name string, of func(Sample) float64) plot.Series {
		s := sp.past(h, class, of, func(s Sample) string { return rate(of(s)) })
		s.Name = name
		return s
	}
	held := count("stamped", "requests", func(s Sample) float64 { return s.Waiting })
	line := count("pool", "people in line", func(s Sample) float64 { return s.InLine })
	line.Area = false
	last, top := h.Last(), rateTop(highest(h, func(s Sample) float64 { return max(s.Waiting, s.InLine) }))
	says := fmt.Sprintf("Waiting at %s over %s: now %s requests that are held and %s people in the waiting room.",
		name, sp.length, rate(last.Waiting), rate(last.InLine))
	p := sp.draw("Waiting", "requests and people", says, last.At, top, rateTicks(top), held, line)
	p.Each = []string{rate(last.Waiting), rate(last.InLine)}
	return p
}

func highest(h GateHistory, of func(Sample) float64) (most float64) {
	for _, s := range h.Samples {
		most = max(most, of(s))
	}
	return most
}

func rateTop(most float64) float64 { return max(plot.RoundUp(most), 1) }

func rateTicks(top float64) []plot.Tick {
	return []plot.Tick{{Value: top, Text: rate(top)}, {Value: top / 2, Text: rate(top / 2)}, {Text: "0"}}
}

// number writes a figure with at most one decimal.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func percent(share float64) string { return weir.Share(math.Round(share*100) / 100).String() }

func rate(v float64) string {
	if v < 10 {
		return number(v)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func asked(work uint64, takes time.Duration) string {
	if work == 0 || takes == 0 {
		return bits(work)
	}
	return bits(work) + ", about " + about(takes) + " on a phone"
}

// price is what a stamp costs, in few words.
func price(work uint64, takes time.Duration) string {
	if work == 0 {
		return bits(0)
	}
	return bits(work) + ", about " + about(takes)
}

func bits(work uint64) string {
	if work == 0 {
		return "nothing"
	}
	return number(math.Log2(float64(work))) + " bits"
}

// about writes an estimated duration with two digits.
func about(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return weir.Duration(d.Round(unit)).String()
}

// A Measure is one column of a Series.
type Measure string

// What is measured. Events are requests, connections, recipients of mail or packets, as Series.Unit says.
const (
	Admitted   Measure = "admitted"   // events a second that went on; those that waited before, too
	Delayed    Measure = "delayed"    // events a second that had to wait, or mail that was delayed or held
	Challenged Measure = "challenged" // events a second that were asked to pay
	Refused    Measure = "refused"    // events a second

	// Of a gate: events a second that a throttle in shadow would have held back.
	Would Measure = "would"
	// Of a throttle in shadow, events a second by what it would have done.
	WouldAdmit     Measure = "would_admit"
	WouldDelay     Measure = "would_delay"
	WouldChallenge Measure = "would_challenge"
	WouldRefuse    Measure = "would_refuse"

	Connections Measure = "connections" // a second, that came to a gate
	TurnedAway  Measure = "turned_away" // of them, a second, those that were not let in
	InFlight    Measure = "in_flight"   // events under way
	Waiting     Measure = "waiting"     // of them, those that wait
	Errors      Measure = "errors"      // a second, of a throttle that cannot judge

	AddedMedian Measure = "added_median" // seconds that an HTTP gate and its throttles add to a request: half add less
	AddedMost   Measure = "added_p99"    // 99 of 100 add less

	// Of gates with a capacity.
	Load        Measure = "load"         // what is asked of the upstream, in proportion to what it can do
	Stamped     Measure = "stamped"      // requests a second that went on because they paid
	Pooled      Measure = "pool"         // requests a second that went on without
	Crowded     Measure = "crowded"      // requests a second that were asked to pay, or refused for the load
	InLine      Measure = "in_line"      // people in the waiting room, with tickets
	Work        Measure = "work"         // operations that a stamp costs; 0 while none is asked for
	WorkSeconds Measure = "work_seconds" // how long a phone works on that

	// Of a mail user at a mail throttle: recipients in the delay queue (Waiting), with how many more the user is
	// stopped, how many new recipients would pass now, and how many the working set has.
	StopAbove   Measure = "stop_above"
	Slack       Measure = "slack"  // of messages to one
	MSlack      Measure = "mslack" // of messages to several
	WorkingSet  Measure = "working_set"
	UserStopped Measure = "stopped" // 1 while the user is stopped, else 0

	// Of a mail user at a reach throttle: new recipients in a window, as estimated, and with how many more the user is
	// flagged; unknown while nobody can tell.
	NewInHour   Measure = "new_hour"
	NewInDay    Measure = "new_day"
	NewInWeek   Measure = "new_week"
	HourLimit   Measure = "limit_hour"
	DayLimit    Measure = "limit_day"
	WeekLimit   Measure = "limit_week"
	UserFlagged Measure = "flagged" // 1 while the user is flagged, else 0
)

// Values are one column: a value for each time. A value that is not known is NaN, null in JSON.
type Values []float32

// MarshalJSON writes four digits of each value: more would not show.
func (v Values) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 2+8*len(v)), '[')
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		switch x := float64(f); {
		case math.IsNaN(x) || math.IsInf(x, 0):
			b = append(b, "null"...)
		case x == math.Trunc(x) && math.Abs(x) < 1e6:
			b = strconv.AppendInt(b, int64(x), 10)
		default:
			b = strconv.AppendFloat(b, x, 'g', 4, 32)
		}
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Values) UnmarshalJSON(text []byte) error {
	var all []*float32
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*v = make(Values, len(all))
	for i, f := range all {
		if (*v)[i] = float32(math.NaN()); f != nil {
			(*v)[i] = *f
		}
	}
	return nil
}

// A Series is the past of a gate or a throttle, in columns of the same length.
type Series struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`         // http, tcp, quota, bloom …
	Unit    string  `json:"unit"`         // what an event is: requests, connections, recipients, packets
	Seconds float64 `json:"step_seconds"` // between two samples
	// When each sample ended, in milliseconds since 1970; the oldest first.
	At      []int64            `json:"at"`
	Columns map[Measure]Values `json:"columns"`
}

// Last is the latest value of a measure; NaN where there is none.
func (s *Series) Last(m Measure) float64 {
	if v := s.Columns[m]; len(v) > 0 {
		return float64(v[len(v)-1])
	}
	return math.NaN()
}

// Time returns when a sample ended.
func (s *Series) Time(i int) time.Time { return time.UnixMilli(s.At[i]) }

// Spread is a histogram: how many were at most Bounds[i], and above Bounds[i-1]. The last count has no bound.
type Spread struct {
	Bounds []float64
	Counts []uint64 // one more than Bounds
}

// Quantile returns a value that a share of those counted since before are not above; NaN where nobody was counted. It
// is interpolated within a bucket. Above the last bound it is that bound.
func (s Spread) Quantile(share float64, before []uint64) float32 {
	var total uint64
	since := func(i int) uint64 {
		if i < len(before) && before[i] <= s.Counts[i] {
			return s.Counts[i] - before[i]
		}
		return s.Counts[i]
	}
	for i := range s.Counts {
		total += since(i)
	}
	if total == 0 {
		return float32(math.NaN())
	}
	rank, below := share*float64(total), 0.0
	for i, bound := range s.Bounds {
		n := float64(since(i))
		if below+n >= rank {
			low := 0.0
			if i > 0 {
				low = s.Bounds[i-1]
			}
			return float32(low + (bound-low)*(rank-below)/n)
		}
		below += n
	}
	return float32(s.Bounds[len(s.Bounds)-1])
}

// How much of the past is kept in memory, of each gate and each throttle: the last minutes finely, the last hour
// coarsely.
const (
	HistoryEvery  = time.Second // between two fine samples
	HistoryLength = 300         // how many are kept

	HourEvery  = 10 * time.Second // between two coarse samples
	HourLength = 360
)

// A GateHistory has the last minutes of a gate with a limited capacity.
type GateHistory struct {
	Gate    string   // as configured
	Address string   // as bound
	Stamps  string   // the throttle that asks for stamps; empty where none does
	Samples []Sample // the oldest first; at most HistoryLength
}

// A Sample is the state of a gate at one time, and its rates over the second or so before.
type Sample struct {
	At         time.Time
	Load       float64       // what is asked of the upstream, in proportion to what it can do
	Work       uint64        // asked for, in operations; 0 while nothing is asked
	Takes      time.Duration // how long a phone works on that
	Stamped    float64       // let in because they paid, a second
	Pool       float64       // let in from the general pool, a second
	TurnedAway float64       // asked to pay, or refused for the load, a second
	Waiting    float64       // requests that wait
	InLine     float64       // people in the waiting room, with tickets
}

// Samples are a series of a gate with a capacity, time by time.
func (s *Series) Samples() (all []Sample) {
	for i := range s.At {
		at := func(m Measure) float64 {
			if i >= len(s.Columns[m]) {
				return 0
			}
			return known(float64(s.Columns[m][i]))
		}
		all = append(all, Sample{At: s.Time(i), Load: at(Load), Work: uint64(at(Work)),
			Takes:   time.Duration(math.Round(at(WorkSeconds) * float64(time.Second))),
			Stamped: at(Stamped), Pool: at(Pooled), TurnedAway: at(Crowded), Waiting: at(Waiting), InLine: at(InLine)})
	}
	return all
}

// Last is the latest sample; the zero one where there is none yet.
func (h GateHistory) Last() Sample {
	if n := len(h.Samples); n > 0 {
		return h.Samples[n-1]
	}
	return Sample{}
}
