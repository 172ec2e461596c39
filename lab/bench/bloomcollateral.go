//go:build linux

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"weir"
	"weir/throttle/bloom"
)

// A flood is one point of B4: attackers, each far over its limit, and innocent networks that ask once each.
type flood struct {
	k, lines  int // lines of limiters of two bytes
	attackers int
	times     int // the limit that attackers ask for
	probes    int // innocent networks

	formula  float64
	measured float64
}

const (
	floodLines = 16384 // 1 MiB with limiters of two bytes; those of the small bursts here take half of it
	far        = 50    // times the limit is far over it
)

// innocents is B4: the share of innocent networks refused, against the formula. It is a simulation with fixed keys,
// order and clock, so that the figures are the same on every machine.
func innocents(t *trial) (figures []figure) {
	var points []*flood
	for _, k := range []int{3, 5, 7} {
		for _, p := range []float64{0.001, 0.01, 0.05} {
			f := &flood{k: k, lines: floodLines, times: far, probes: 2 * million}
			f.attackers = int(math.Round(bloom.Attackers(k, f.limiters(), math.Pow(p, 1/float64(k)))))
			if p < 0.01 {
				f.probes = 4 * million // few are refused, so more must ask
			}
			points = append(points, f)
		}
	}
	// One point again, with attackers that are not so far over their limit. They take the tokens of a unit of time a
	// tenth of it later, and until then others may have them. The formula is for attackers that are quicker than that.
	mild := *points[4]
	mild.times = 10
	points = append(points, &mild)
	if t.quick {
		points = points[4:5]
		points[0].probes = million / 10
	}
	together(len(points), func(i int) error { return points[i].run() })

	csv := "attackers,k,lines,times,probes,formula,measured\n"
	for _, f := range points {
		ratio := f.measured / f.formula
		got := most(1.05, ratio, "%.3f")
		if f.times >= far {
			got = within(0.95, 1.05, ratio, "%.3f")
		}
		figures = append(figures, figure{fmt.Sprintf("innocent networks refused, measured / formula, k = %d, %d "+
			"attackers at %d × their limit, %d limiters, %d probes", f.k, f.attackers, f.times, f.limiters(), f.probes),
			[]value{got}, fmt.Sprintf("%.3f %% / %.3f %%", 100*f.measured, 100*f.formula)})
		csv += fmt.Sprintf("%d,%d,%d,%d,%d,%.6g,%.6g\n", f.attackers, f.k, f.lines, f.times, f.probes, f.formula,
			f.measured)
	}
	t.points("bloomcollateral.csv", csv)
	return figures
}

func (f *flood) limiters() int64 { return int64(f.lines) * bloom.Lanes }

// run plays the flood. Attackers ask in turns, each at so many times its limit. Evenly spread between their events,
// innocent networks ask once each. They take up to 70 % of what the attackers leave. The limiters hold a burst so that
// innocent networks do not refuse each other.
func (f *flood) run() error {
	const burst = 20 // of each limiter, which gets 1 in every second
	s, err := bloom.Fit(weir.Rate{Count: int64(f.k), Per: time.Second}, int64(burst*f.k), f.k, 1)
	if err != nil {
		return err
	}
	s.Lines = int(f.limiters() / s.Lanes())
	table := bloom.NewTable(s, bloom.Key{uint64(f.k), uint64(f.attackers)})
	order := rand.New(rand.NewPCG(uint64(f.k), uint64(f.attackers))).Perm(f.attackers)
	drained := bloom.Drained(f.k, f.limiters(), float64(f.attackers))
	f.formula = bloom.Collateral(f.k, f.limiters(), float64(f.attackers))

	perUnit := f.attackers * f.times * f.k // events of attackers in a second
	probes := 0.7 * (1 - drained) * float64(f.limiters())
	step, every := float64(time.Second)/float64(perUnit), float64(perUnit)/probes
	next := float64(max(2*perUnit, 2*burst*f.k*f.attackers)) // the first bursts are long used up
	tended, probed, refused := time.Duration(0), 0, 0
	for i := 0; probed < f.probes; i++ {
		now := time.Duration(float64(i) * step)
		if now-tended >= s.TendEvery() {
			table.Tend(now)
			tended = now
		}
		table.Take(attacker(order[i%f.attackers]), s.Tokens(1), now)
		for ; float64(i) >= next && probed < f.probes; next += every {
			if _, ok := table.Take(innocent(probed), s.Tokens(1), now); !ok {
				refused++
			}
			probed++
		}
	}
	f.measured = float64(refused) / float64(f.probes)
	return nil
}

// attacker returns the network of an attacker: 10.0.0.0/32 and so on.
func attacker(n int) bloom.Network {
	return bloom.NetworkV4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}, 32)
}

// innocent returns a network that has never asked before.
func innocent(n int) bloom.Network {
	return bloom.NetworkV4([4]byte{byte(n>>24) | 128, byte(n >> 16), byte(n >> 8), byte(n)}, 32)
}
