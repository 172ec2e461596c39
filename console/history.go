package console

import (
	"math"
	"time"
)

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
