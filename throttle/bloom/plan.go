package bloom

import (
	"fmt"
	"math"

	"weir"
)

// Bounds on what can be asked for.
const (
	MaxAttackers  = 1 << 32
	MinCollateral = 1e-9
)

// Collateral is the share of innocent networks refused by a table of so many limiters while so many networks are far
// over their limit: (1 - e^(-kn/m))^k. An innocent network is refused when an attacker drains each of its k limiters.
func Collateral(k int, limiters int64, attackers float64) float64 {
	return math.Pow(Drained(k, limiters, attackers), float64(k))
}

// Drained is the share of limiters that so many attacking networks keep empty.
func Drained(k int, limiters int64, attackers float64) float64 {
	return -math.Expm1(-float64(k) * attackers / float64(limiters))
}

// Attackers is the inverse of Drained: how many networks it takes to keep such a share of the limiters empty.
func Attackers(k int, limiters int64, drained float64) float64 {
	if drained >= 1 {
		return math.Inf(1)
	}
	return -math.Log1p(-drained) * float64(limiters) / float64(k)
}

// A Plan is a table sized for a flood.
type Plan struct {
	K     int   `json:"k"`
	Lanes int   `json:"lanes"` // limiters of a line
	Lines int   `json:"lines"` // of one table
	Bytes int64 `json:"bytes"` // of both tables of a rotation
	// the share of innocent networks refused, under as many attackers as planned for
	Collateral float64 `json:"collateral"`
}

// Limiters is how many limiters one table has.
func (p Plan) Limiters() int64 { return int64(p.Lines) * int64(p.Lanes) }

// Crowd is how many networks can have all of their limit at the same time. Whatever the burst is, the limiters get no
// more tokens than that.
func (p Plan) Crowd() int64 { return p.Limiters() / int64(p.K) }

// LanesFor is how many limiters a line has for sources with so large a burst of events: 62 of one byte or 31 of two. A
// burst of 0 is unknown and takes two bytes. (A burst that fills within less than a millisecond takes two as well.)
func LanesFor(k int, burst int64) int {
	if burst > 0 && burst/int64(k) <= MaxNarrow {
		return timeAt / narrow
	}
	return Lanes
}

// frugal is how many times as many limiters a table has whose limiters hold a single token. One request empties such a
// limiter. So what an attacking IPv6 network is granted empties limiters of its narrower networks, besides its own.
const frugal = 1.5

// Size returns the smallest table that refuses at most the given share of innocent networks while so many networks
// attack. The burst decides how large a limiter is, see LanesFor.
func Size(k int, attackers int64, collateral weir.Share, burst int64) (Plan, error) {
	switch {
	case k < 1 || k > MaxK:
		return Plan{}, &weir.FieldError{Path: "k", Msg: fmt.Sprintf("%d limiters for each source are not possible", k),
			Hint: fmt.Sprintf("1 to %d", MaxK)}
	case burst != 0 && burst < int64(k):
		return Plan{}, tooSmall(burst, k, 1)
	case attackers < 1 || attackers > MaxAttackers:
		return Plan{}, &weir.FieldError{Path: "attackers",
			Msg:  fmt.Sprintf("%d attackers cannot be planned for", attackers),
			Hint: fmt.Sprintf("1 to %d", int64(MaxAttackers))}
	case collateral < MinCollateral || collateral >= 1:
		return Plan{}, &weir.FieldError{Path: "collateral",
			Msg:  fmt.Sprintf("%s of the innocent cannot be planned for", collateral),
			Hint: "more than 0% and less than 100%, such as 1%"}
	}
	limiters := float64(k) * float64(attackers) / -math.Log1p(-math.Pow(float64(collateral), 1/float64(k)))
	if burst != 0 && burst < 2*int64(k) {
		limiters *= frugal
	}
	lines := math.Ceil(limiters / Lanes)
	if lines > MaxLines {
		return Plan{}, &weir.FieldError{Path: "attackers",
			Msg: fmt.Sprintf("a table for %d attackers would take %.0f GiB", attackers, lines*LineBytes/(1<<30)),
			Hint: fmt.Sprintf("a table has at most %d lines (%s); allow more collateral, or take another k", MaxLines,
				weir.Size(MaxLines*LineBytes))}
	}
	p := Plan{K: k, Lanes: LanesFor(k, burst)}
	p.Lines = int(math.Ceil(limiters / float64(p.Lanes)))
	p.Bytes = 2 * int64(p.Lines) * LineBytes
	p.Collateral = Collateral(k, p.Limiters(), float64(attackers))
	return p, nil
}

// Smallest is Size with the k that needs the least memory.
func Smallest(attackers int64, collateral weir.Share, burst int64) (Plan, error) {
	best, err := Size(1, attackers, collateral, burst)
	for k := 2; k <= MaxK; k++ {
		if p, failed := Size(k, attackers, collateral, burst); failed == nil && (err != nil || p.Lines < best.Lines) {
			best, err = p, nil
		}
	}
	return best, err
}

// A Neighbour is what a network can expect that is no attacker but uses a share of its own limit: the attackers share
// some of its limiters, and what those would have given is gone.
type Neighbour struct {
	Use       weir.Share `json:"use"`       // of its own limit
	Untouched float64    `json:"untouched"` // gets all it asks for: the share of such networks
	Throttled float64    `json:"throttled"` // gets a part
	Refused   float64    `json:"refused"`   // gets nothing
	Served    float64    `json:"served"`    // what they get of what they ask for, on average
}

// Neighbours returns what such a network can expect in a table of so many limiters. With j of its k limiters drained it
// has (k-j)/k of its limit left; j is binomially distributed.
func Neighbours(k int, limiters int64, attackers float64, use weir.Share) Neighbour {
	n := Neighbour{Use: use}
	d := Drained(k, limiters, attackers)
	chance := math.Pow(1-d, float64(k)) // of j = 0
	if d == 1 {
		n.Refused = 1
		return n
	}
	for j := 0; j <= k; j++ {
		left := 1.
		if use > 0 {
			left = min(1, float64(k-j)/float64(k)/float64(use))
		}
		switch {
		case j == k:
			n.Refused += chance
			left = 0
		case left < 1:
			n.Throttled += chance
		default:
			n.Untouched += chance
		}
		n.Served += chance * left
		chance *= float64(k-j) / float64(j+1) * d / (1 - d)
	}
	return n
}
