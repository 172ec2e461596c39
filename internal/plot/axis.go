package plot

import (
	"math"
	"strconv"
)

// position returns how far along an axis a value is, in percent.
func (a Axis) position(v float64) float64 {
	lo, hi := a.Lo, a.Hi
	if a.Log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	return min(max((v-lo)/(hi-lo)*100, 0), 100)
}

// Step is the round distance between ticks, of which there are at most so many: 1, 2, 5, 10, 20 and so on.
func (a Axis) Step(most int) float64 {
	least := (a.Hi - a.Lo) / float64(most)
	if a.Whole {
		least = max(least, 1)
	}
	return RoundUp(least)
}

// RoundUp returns the next of 1, 2, 5, 10, 20, 50 and so on, for positive values.
func RoundUp(v float64) float64 {
	if v <= 0 {
		return 0
	}
	tens := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*tens*(1+1e-9) {
			return n * tens
		}
	}
	return 10 * tens
}

func ticks(a Axis, most int) (all []Tick) {
	if a.Log {
		for _, of := range [][]float64{{1, 2, 5}, {1}} {
			if all = decades(a, of); len(all) > 1 && len(all) <= most+1 {
				return all
			}
		}
		if len(all) < 2 { // too short for decades
			a.Log = false
			return ticks(a, most)
		}
		thin := max(1, (len(all)+most-1)/most)
		kept := all[:0]
		for i := 0; i < len(all); i += thin {
			kept = append(kept, all[i])
		}
		return kept
	}
	by := a.Step(most)
	for i := math.Ceil(a.Lo/by - 1e-9); i*by <= a.Hi*(1+1e-9); i++ {
		all = append(all, Tick{Value: i * by, Text: TickText(i*by, by)})
	}
	return all
}

func decades(a Axis, of []float64) (all []Tick) {
	for e := math.Floor(math.Log10(a.Lo)); e <= math.Ceil(math.Log10(a.Hi)); e++ {
		for _, n := range of {
			v := n * math.Pow(10, e)
			if v >= a.Lo*(1-1e-9) && v <= a.Hi*(1+1e-9) {
				all = append(all, Tick{Value: v, Text: TickText(v, math.Pow(10, e))})
			}
		}
	}
	return all
}

// TickText writes a value in as many digits as the distance to the next one needs.
func TickText(v, by float64) string {
	if v == 0 {
		return "0"
	}
	for _, unit := range []struct {
		size float64
		sign string
	}{{1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= max(unit.size, 1e4) {
			return strconv.FormatFloat(v/unit.size, 'f', digits(by/unit.size), 64) + unit.sign
		}
	}
	return strconv.FormatFloat(v, 'f', digits(by), 64)
}

// digits is how many are needed behind the point for numbers that are so far apart.
func digits(by float64) int { return int(max(0, min(9, math.Ceil(-math.Log10(by)-1e-9)))) }
