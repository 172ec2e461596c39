package simulate

import (
	"math"
	"time"

	"weir/throttle/stamp"
)

// crowds tells what became of everybody.
func (p *play) crowds() []FloodCrowd {
	span := (p.o.Until - p.o.From).Seconds()
	if !p.flooded() {
		span = p.o.For.Seconds()
	}
	var out []FloodCrowd
	for _, c := range p.all {
		n := c.counts
		if n.Offered > 0 {
			n.Share = float64(n.Served) / float64(n.Offered)
		}
		n.Capacity = float64(c.meant) / (p.o.Capacity() * span)
		if n.Served > 0 {
			n.MeanWait, n.P95Wait = c.waited/float64(n.Served), c.waits.quantile(0.95)
		}
		out = append(out, n)
	}
	return out
}

// chance is how lucky somebody is with a stamp: 1 on average. The algorithms have as many parts as make luck small.
func (p *play) chance() float64 {
	parts := 0
	switch p.o.Stamps.Algorithm {
	case stamp.SHA256K:
		parts = 16
	case stamp.Argon2id:
		parts = 8
	default: // logarithms: anywhere in their interval
		return 0.5 + p.luck.Float64()
	}
	sum := 0.0
	for range parts {
		sum += p.luck.ExpFloat64()
	}
	return sum / float64(parts)
}

// waits counts times, in steps of a hundredth from a millisecond on.
type waits struct {
	counts [1600]int
	n      int
}

const waitStep = 1.01

func (w *waits) add(d time.Duration) {
	i := 0
	if ms := float64(d) / 1e6; ms >= 1 {
		i = min(1+int(math.Log(ms)/math.Log(waitStep)), len(w.counts)-1)
	}
	w.counts[i]++
	w.n++
}

// quantile is in seconds.
func (w *waits) quantile(q float64) float64 {
	rank, seen := int(math.Ceil(q*float64(w.n))), 0
	for i, n := range w.counts {
		if seen += n; n > 0 && seen >= rank {
			if i == 0 {
				return 0
			}
			return math.Pow(waitStep, float64(i)) / 1000
		}
	}
	return 0
}
