package console

import "time"

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
}

// Last is the latest sample; the zero one where there is none yet.
func (h GateHistory) Last() Sample {
	if n := len(h.Samples); n > 0 {
		return h.Samples[n-1]
	}
	return Sample{}
}
