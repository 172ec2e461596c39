package simulate

import "math"

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

// mostExact is up to how many events the interval is exact. From there on Byar's approximation is as good.
const mostExact = 100_000

// poisson is the exact interval (Garwood's) of how many events are expected where n were counted.
func poisson(n int) Interval {
	if n <= 0 {
		return Interval{0, -math.Log(0.025)}
	}
	if n > mostExact {
		byar := func(n, z float64) float64 { return n * math.Pow(1-1/(9*n)+z/(3*math.Sqrt(n)), 3) }
		return Interval{byar(float64(n), -z), byar(float64(n)+1, z)}
	}
	// With the lower bound expected, n or more are as rare as 2.5%; with the upper one, n or fewer.
	return Interval{mean(func(m float64) bool { return 1-atMost(n-1, m) < 0.025 }, n),
		mean(func(m float64) bool { return atMost(n, m) > 0.025 }, n)}
}

// times is the interval of the events for each of so many units, such as users and months.
func (i Interval) times(f float64) Interval { return Interval{i[0] * f, i[1] * f} }

// text writes both ends.
func (i Interval) text(of func(float64) string) string { return of(i[0]) + " to " + of(i[1]) }

// mean finds the largest mean around n for which a condition holds.
func mean(holds func(mean float64) bool, n int) float64 {
	lo, hi := 0.0, float64(n)+10*math.Sqrt(float64(n))+10
	for range 60 {
		if mid := (lo + hi) / 2; holds(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// atMost is the probability of counting n or fewer where a mean is expected. It sums from the greatest term down, for
// precision.
func atMost(n int, mean float64) float64 {
	if mean <= 0 {
		return 1
	}
	start := min(n, int(mean))
	logOf := func(k int) float64 {
		gamma, _ := math.Lgamma(float64(k) + 1)
		return float64(k)*math.Log(mean) - mean - gamma
	}
	first := math.Exp(logOf(start))
	sum := first
	for k, term := start, first; k > 0 && term > sum*1e-17; k-- {
		term *= float64(k) / mean
		sum += term
	}
	for k, term := start+1, first; k <= n && term > sum*1e-17; k++ {
		term *= mean / float64(k)
		sum += term
	}
	return min(sum, 1)
}
