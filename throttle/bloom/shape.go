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
	lineWords  = LineBytes / 8
	lineBits   = LineBytes * 8
	timeBits   = 16
	timeShift  = 64 - timeBits       // the time counter is at the end of the last word
	timeAt     = lineBits - timeBits // and limiters are before it
	timeMask   = 1<<timeBits - 1
	wide       = 16            // bits of a limiter
	narrow     = 8             // and of one with a small share of the burst
	Lanes      = timeAt / wide // wide limiters of a line; of the narrow ones there are twice as many
	window     = 1 << timeBits // time units until a time counter begins anew
	MaxTokens  = 1<<wide - 1   // that one limiter can hold
	MaxNarrow  = 250           // events or parts of the burst on a narrow one: it must be able to owe some more
	MaxK       = 8             // limiters of a source
	MaxLines   = 1 << 27
	minUnit    = 10 * time.Microsecond
	smoothUnit = time.Millisecond // units are not made shorter than this without need
	fineUnits  = 1024             // units that an empty limiter takes to fill, where the time allows it
	leastUnits = 64               // and where it does not
	learnFills = 10               // how many times a successor could be filled before it takes over
)

// A Shape is the figures of one table, as the Go code and the program in the kernel both take them.
type Shape struct {
	K        int           // limiters of each source
	Bits     int           // of a limiter: 16, or 8 where the burst is small
	Lines    int           // of 31 limiters each, or 62
	Capacity int           // parts that one limiter holds
	Share    int           // parts of the burst that fall on one limiter: the capacity, or a little more
	PerUnit  int           // parts that one limiter gets each time unit
	Unit     time.Duration // the time unit
	Grain    int64         // what one token stands for: so many events or bytes
	Parts    int           // of a token: small bursts come in parts of tokens, so that time can be counted finely
}

// Fit returns the shape of a table whose sources get rate, with bursts of burst: each of a source's k limiters gets a
// k-th of both. A grain of 0 takes the smallest that lets the balances fit into 16 bits. The shape has no lines yet.
//
// Rounding is to the source's disadvantage: no more is granted than the rate and the burst allow.
func Fit(rate weir.Rate, burst int64, k int, grain int64) (Shape, error) {
	s, err := fit(rate, burst, k, grain, narrow, MaxNarrow)
	if err == nil && s.Share <= MaxNarrow && s.owing() <= 1<<narrow-1 {
		return s, nil
	}
	return fit(rate, burst, k, grain, wide, fineUnits)
}

// fit is Fit for limiters of so many bits. A share of the burst below fine tokens is divided into about as many parts.
func fit(rate weir.Rate, burst int64, k int, grain int64, bits int, fine int64) (Shape, error) {
	if grain == 0 {
		grain = max(1, (burst/int64(k)+MaxTokens-1)/MaxTokens)
	}
	s := Shape{K: k, Grain: grain, Bits: bits}
	share := burst / int64(k) / grain
	switch {
	case share < 1:
		return s, tooSmall(burst, k, grain)
	case share > MaxTokens:
		return s, &weir.FieldError{Path: "grain",
			Msg: fmt.Sprintf("a limiter holds at most %d tokens, a burst of %d needs %d", MaxTokens, burst, share),
			Hint: fmt.Sprintf("a burst of at most %d, or a grain of %d if everything costs as much",
				MaxTokens*int64(k)*grain, (burst/int64(k)+MaxTokens-1)/MaxTokens)}
	}
	s.Parts = int(max(1, fine/share))
	s.Share = int(share) * s.Parts
	s.Capacity = s.Share
	// One token takes one limiter k·grain/rate.
	token := new(big.Int).Mul(big.NewInt(int64(k)*int64(rate.Per)), big.NewInt(grain)) // over rate.Count nanoseconds
	count := big.NewInt(rate.Count)
	fill := new(big.Int).Div(new(big.Int).Mul(token, big.NewInt(share)), count)
	units := int64(fineUnits)
	if fill.IsInt64() {
		units = min(max(fill.Int64()/int64(smoothUnit), leastUnits), units, max(1, fill.Int64()/int64(minUnit)))
	}
	s.PerUnit = int((int64(s.Capacity) + units - 1) / units)
	unit := new(big.Int).Mul(token, big.NewInt(int64(s.PerUnit)))
	count.Mul(count, big.NewInt(int64(s.Parts)))
	unit.Add(unit, new(big.Int).Sub(count, big.NewInt(1))).Div(unit, count) // rounded up
	if !unit.IsInt64() {
		return s, &weir.FieldError{Path: "rate", Msg: fmt.Sprintf("%s is too slow", rate), Hint: "at least 1/365d"}
	}
	if s.Unit = time.Duration(unit.Int64()); s.Unit < minUnit {
		return s, &weir.FieldError{Path: "burst",
			Msg: fmt.Sprintf("a burst of %d is used up within microseconds at %s", burst, rate),
			Hint: fmt.Sprintf("at least %d: a millisecond's worth",
				max(rate.Count/max(1, int64(rate.Per/time.Millisecond)), burst+1))}
	}
	// What comes due with a unit may come on top of a whole burst. It is less than one token for all limiters together,
	// or the limiters hold so much less. A source that asks for the whole burst at once gets it, and owes the rest.
	if s.Parts <= k*s.PerUnit && s.PerUnit < s.Capacity/4 && s.Capacity-s.PerUnit >= s.Parts {
		s.Capacity -= s.PerUnit
	}
	return s, nil
}

func tooSmall(burst int64, k int, grain int64) error {
	return &weir.FieldError{Path: "burst",
		Msg:  fmt.Sprintf("a burst of %d leaves less than one token for each of a source's %d limiters", burst, k),
		Hint: fmt.Sprintf("at least %d, or a smaller k", int64(k)*grain)}
}

// Bytes is the memory of the table.
func (s Shape) Bytes() int64 { return int64(s.Lines) * LineBytes }

// Limiters is how many limiters the table has.
func (s Shape) Limiters() int64 { return int64(s.Lines) * s.Lanes() }

// Lanes is how many limiters a line has.
func (s Shape) Lanes() int64 { return timeAt / int64(s.Bits) }

func (s Shape) sized(limiters int64) Shape {
	s.Lines = int((limiters + s.Lanes() - 1) / s.Lanes())
	return s
}

// Burst is what a source that was idle gets at once. It is also the largest cost that can ever be granted.
func (s Shape) Burst() int64 { return int64(s.Share) * int64(s.K) / int64(s.Parts) * s.Grain }

// Tokens is what a cost of at most Burst takes, in parts. What is smaller than a grain costs a whole one.
func (s Shape) Tokens(cost int64) int64 {
	if s.Grain > 1 {
		cost = (cost-1)/s.Grain + 1
	}
	return cost * int64(s.Parts)
}

// Most is what a limiter counts to, from the time at which its line was filled, with what has come due since. The line
// is filled again when that would not fit, and long before its time counter begins anew.
func (s Shape) Most() int { return min(s.Share+window/8*s.PerUnit, 1<<s.Bits-1) }

// owing is what is spent of each limiter when a table starts empty. One table may be two units ahead of another, as
// their units do not begin together; these are owed.
func (s Shape) owing() int { return s.Capacity + 2*s.PerUnit }

// empty is owing, as far as a limiter can hold it.
func (s Shape) empty() int { return min(s.owing(), 1<<s.Bits-1) }

// fill is how long a limiter takes from empty to full.
func (s Shape) fill() time.Duration {
	return s.times(int64((s.empty() + s.PerUnit - 1) / s.PerUnit))
}

func (s Shape) times(units int64) time.Duration {
	if units > int64(1<<62)/int64(s.Unit) {
		return 1 << 62
	}
	return time.Duration(units) * s.Unit
}

// TendEvery is how often a table should be tended: before its time counters begin anew, and to watch the damage.
func (s Shape) TendEvery() time.Duration {
	return min(max(s.fill()/8, minTend), maxTend, s.times(window/4))
}

// Learn is how long a table is charged before it takes over from another. It starts empty, so that it never has more
// than the other. After this time it grants whatever is within the burst and nine tenths of the rate.
func (s Shape) Learn() time.Duration {
	if f := s.fill(); f < 1<<62/learnFills {
		return f * learnFills
	}
	return 1 << 62
}

// Damage says what it means that so many limiters are empty.
func (s Shape) Damage(empty int64) Estimate {
	drained := float64(empty) / float64(s.Limiters())
	return Estimate{drained, math.Pow(drained, float64(s.K)), Attackers(s.K, s.Limiters(), min(drained, 1-1e-9))}
}

// Shapes are those of the tables of all levels, the narrowest networks first.
type Shapes []Shape

// Learn is how long the slowest of the tables takes to learn.
func (all Shapes) Learn() (d time.Duration) {
	for _, s := range all {
		d = max(d, s.Learn())
	}
	return d
}

// Bytes is the memory of the tables, both of each rotation.
func (all Shapes) Bytes() (n int64) {
	for _, s := range all {
		n += 2 * s.Bytes()
	}
	return n
}

// Bounds on how often a table is tended.
const (
	minTend = 250 * time.Millisecond
	maxTend = 5 * time.Second
)
