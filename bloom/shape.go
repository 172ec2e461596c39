package bloom

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"weir"
)

// What a line is made of.
const (
	LineBytes  = 64
	Lanes      = 31 // limiters of a line
	lineWords  = LineBytes / 8
	laneBits   = 16
	timeLane   = Lanes // the last lane of a line is its time counter
	timeShift  = 48    // where it stands in the last word
	everyLane  = 0x0001_0001_0001_0001
	window     = 1 << laneBits   // time units until a time counter begins anew
	MaxTokens  = 1<<laneBits - 1 // that one limiter can hold
	MaxK       = 8               // limiters of a source
	MaxLines   = 1 << (32 - 5)   // a place is a number of 32 bits
	minUnit    = 10 * time.Microsecond
	smoothUnit = time.Millisecond // units are not made shorter than this without need
)

// A Shape is the figures of one table, as the Go code and the program in the kernel both take them.
type Shape struct {
	K        int           // limiters of each source
	Lines    int           // of 31 limiters each
	Capacity int           // tokens that one limiter holds, up to MaxTokens
	PerUnit  int           // tokens that one limiter gets each time unit
	Unit     time.Duration // the time unit
	Grain    int64         // what one token stands for: so many events or bytes
}

// Fit returns the shape of a table whose sources get rate, with bursts of burst: each of a source's k limiters gets a k-th of
// both. A grain of 0 takes the smallest that lets the balances fit into 16 bits. The shape has no lines yet.
//
// What does not divide is rounded to the source's disadvantage: never more is granted than was asked for.
func Fit(rate weir.Rate, burst int64, k int, grain int64) (Shape, error) {
	if grain == 0 {
		grain = max(1, (burst/int64(k)+MaxTokens-1)/MaxTokens)
	}
	s := Shape{K: k, Grain: grain}
	share := burst / int64(k) / grain
	switch {
	case share < 1:
		return s, &weir.FieldError{Path: "burst", Msg: fmt.Sprintf("a burst of %d leaves less than one token for each of a source's %d limiters", burst, k),
			Hint: fmt.Sprintf("at least %d, or a smaller k", int64(k)*grain)}
	case share > MaxTokens:
		return s, &weir.FieldError{Path: "grain", Msg: fmt.Sprintf("a limiter holds at most %d tokens, a burst of %d needs %d", MaxTokens, burst, share),
			Hint: fmt.Sprintf("a burst of at most %d, or a grain of %d if everything costs as much", MaxTokens*int64(k)*grain, (burst/int64(k)+MaxTokens-1)/MaxTokens)}
	}
	s.Capacity = int(share)
	// One token takes one limiter k·grain/rate; so many of them make a unit that they are refilled about once in a millisecond.
	token := new(big.Int).Mul(big.NewInt(int64(k)*int64(rate.Per)), big.NewInt(grain)) // over rate.Count nanoseconds
	count := big.NewInt(rate.Count)
	s.PerUnit = 1
	if few := new(big.Int).Mul(big.NewInt(int64(smoothUnit)), count); few.Cmp(token) > 0 {
		few.Div(few.Add(few, new(big.Int).Sub(token, big.NewInt(1))), token)
		s.PerUnit = s.Capacity
		if few.IsInt64() && few.Int64() < int64(s.Capacity) {
			s.PerUnit = int(few.Int64())
		}
	}
	unit := new(big.Int).Mul(token, big.NewInt(int64(s.PerUnit)))
	unit.Add(unit, new(big.Int).Sub(count, big.NewInt(1))).Div(unit, count) // rounded up
	if !unit.IsInt64() {
		return s, &weir.FieldError{Path: "rate", Msg: fmt.Sprintf("%s is too slow", rate), Hint: "at least 1/365d"}
	}
	if s.Unit = time.Duration(unit.Int64()); s.Unit < minUnit {
		return s, &weir.FieldError{Path: "burst", Msg: fmt.Sprintf("a burst of %d is used up within microseconds at %s", burst, rate),
			Hint: fmt.Sprintf("at least %d: a millisecond's worth", max(rate.Count/max(1, int64(rate.Per/time.Millisecond)), burst+1))}
	}
	return s, nil
}

// Bytes is the memory of the table.
func (s Shape) Bytes() int64 { return int64(s.Lines) * LineBytes }

// Limiters is how many limiters the table has.
func (s Shape) Limiters() int64 { return int64(s.Lines) * Lanes }

// Burst is what a source that was idle gets at once.
func (s Shape) Burst() int64 { return int64(s.Capacity) * int64(s.K) * s.Grain }

// Largest is the largest cost that can ever be granted: it has to come from one limiter.
func (s Shape) Largest() int64 { return int64(s.Capacity) * s.Grain }

// Tokens is what a cost takes. What is smaller than a grain costs a whole one.
func (s Shape) Tokens(cost int64) int64 {
	if s.Grain == 1 {
		return cost
	}
	return (cost-1)/s.Grain + 1
}

// fill is how long an empty limiter takes to be full.
func (s Shape) fill() time.Duration {
	units := int64((s.Capacity + s.PerUnit - 1) / s.PerUnit)
	if units > int64(1<<62)/int64(s.Unit) {
		return 1 << 62
	}
	return time.Duration(units) * s.Unit
}

// SweepEvery is how often a table should be swept. Refills are lazy: after an idle time, what came in meanwhile is still to be
// added when the limiters are empty, on top of a whole burst. Sweeping keeps that below an eighth of the burst; and it must come
// before the time counters begin anew.
func (s Shape) SweepEvery() time.Duration {
	quarter := time.Duration(1 << 61)
	if int64(s.Unit) < int64(quarter)/(window/4) {
		quarter = s.Unit * (window / 4)
	}
	return min(max(s.fill()/8, minSweep), maxSweep, quarter)
}

// Overlap is how long a table is charged before it takes over from another: long enough for a source at twice its limit to be known
// by then.
func (s Shape) Overlap(rotate time.Duration) time.Duration {
	return min(max(2*s.fill(), time.Second), rotate/2)
}

// Damage says what it means that so many limiters are empty: their share, the share of innocent networks refused by that, and how
// many networks it takes to keep them so.
func (s Shape) Damage(empty int64) (drained, collateral, attackers float64) {
	drained = float64(empty) / float64(s.Limiters())
	return drained, math.Pow(drained, float64(s.K)), Attackers(s.K, s.Limiters(), min(drained, 1-1e-9))
}

// Bounds on how often a table is swept.
const (
	minSweep = 50 * time.Millisecond
	maxSweep = 5 * time.Second
)
