package console

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

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
