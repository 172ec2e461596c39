//go:build linux

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"weir/throttle/reach"
)

// sizes are how many recipients the users of R1 and R2 have.
var sizes = [...]int{10, 10_000, 1_000_000}

// contacts are the rules of a reach throttle that keeps the set of known recipients, or does not.
func contacts(known bool) *reach.Rules {
	return try(reach.Options{Over: reach.Flag, Known: known, Newcomers: 1_000_000}.Rules())
}

// writer is a user who has written to so many recipients, and the keys of these.
func writer(r *reach.Rules, n int, seed uint64) (*reach.State, []uint64) {
	draw, keys := rand.New(rand.NewPCG(seed, uint64(n))), make([]uint64, n)
	for i := range keys {
		keys[i] = draw.Uint64()
	}
	s := new(reach.State)
	for from := 0; from < n; from += 100 {
		s.Learn(r, when, keys[from:min(from+100, n)])
	}
	return s, keys
}

// sketchSize is R1: what is kept of a user, in memory and stored, and of each known recipient on top.
func sketchSize(*trial) (figures []figure) {
	for i, n := range sizes {
		without, _ := writer(contacts(false), n, 1)
		with, keys := writer(contacts(true), n, 1)
		var sketch reach.Sketch
		for _, key := range keys {
			sketch.Add(key)
		}
		stored := try(without.AppendBinary(nil))
		limit := []float64{128, 4096, 4096}[i]
		figures = append(figures, figure{fmt.Sprintf("a user with %d recipients: sketch in memory, all that is stored", n),
			[]value{most(limit, float64(sketch.Bytes()), "%.0f bytes"), most(limit, float64(len(stored)), "%.0f bytes")}, ""})
		if n < 1000 { // the target is a share of what is many
			continue
		}
		b := try(with.AppendKnown(try(with.AppendBinary(nil))))
		each := float64(len(b)-len(stored)) / float64(n)
		wrong, tries := 0, 200_000
		draw := rand.New(rand.NewPCG(2, 2))
		for range tries {
			wrong += with.Judge(contacts(true), nil, when, []uint64{draw.Uint64()}, nil).Known
		}
		lost := 0
		for _, key := range keys[:10_000] {
			lost += with.Judge(contacts(true), nil, when, []uint64{key}, nil).New
		}
		figures = append(figures,
			figure{"… and the set of them on top: bytes each, strangers taken for known, known taken for strangers",
				[]value{most(1.5, each, "%.2f"), most(1, 100*float64(wrong)/float64(tries), "%.2f %%"), none(lost)}, ""})
	}
	return figures
}

// sketchError is R2: by how much the count is wrong, over a hundred users.
func sketchError(t *trial) (figures []figure) {
	users := pick(t, 100, 3)
	for i, n := range sizes {
		var squares, merged float64
		for seed := range users {
			var all, half, other reach.Sketch
			draw := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
			for k := range n {
				key := draw.Uint64()
				all.Add(key)
				if k%2 == 0 {
					half.Add(key)
				} else {
					other.Add(key)
				}
			}
			check(half.Merge(&other))
			squares += math.Pow(all.Count()/float64(n)-1, 2)
			merged += math.Pow(half.Count()/float64(n)-1, 2)
		}
		limit := []float64{0, 2.5, 2.5}[i]
		percent := func(squares float64) value { return most(limit, 100*math.Sqrt(squares/float64(users)), "%.2f %%") }
		figures = append(figures,
			figure{fmt.Sprintf("error of the count of %d recipients, RMS over %d users, and of two halves merged", n,
				users), []value{percent(squares), percent(merged)}, ""})
	}
	return figures
}

// sketchDecision is R3: how long a decision takes for each recipient.
func sketchDecision(t *trial) (figures []figure) {
	rounds, runs := pick(t, 7, 1), pick(t, 200_000, 1000)
	var p reach.Population
	for _, c := range []struct {
		what  string
		known bool
		n     int
		each  int
	}{
		{"10 recipients, a mail to one", false, 10, 1},
		{"10,000 recipients, a mail to one", false, 10_000, 1},
		{"50,000 known recipients, a mail to one", true, 50_000, 1},
		{"50,000 known recipients, a mail to ten", true, 50_000, 10},
		{"1,000,000 known recipients, a mail to one", true, 1_000_000, 1},
	} {
		rules := contacts(c.known)
		s, keys := writer(rules, c.n, 3)
		fates := make([]reach.Fate, c.each)
		judge := func(i int) {
			at := i * 7919 * c.each % (len(keys) - c.each + 1)
			s.Judge(rules, &p, when, keys[at:at+c.each], fates)
		}
		allocs := testing.AllocsPerRun(100, func() { judge(1) })
		times, busy := undisturbed(rounds, func() {
			for i := range runs / c.each {
				judge(i)
			}
		})
		figures = append(figures, figure{"decision per recipient, user with " + c.what + ": time, allocations",
			[]value{most(300, each(times[0], runs), "%.0f ns"), none(int(allocs))}, busy})
	}
	return figures
}
