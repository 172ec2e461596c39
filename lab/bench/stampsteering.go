//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir"
	"weir/admission"
	"weir/throttle/stamp"
)

// steering is S7: the load becomes ten-fold at once, from clients that pay whatever is asked as long as their
// processors can. Simulated in steps of a millisecond, with the real throttle and the real lanes: how long until the
// stamped lane is back at its target, and how long after the end nothing is asked any more.
func steering(*trial) []figure {
	back, dormant, peak := tenfold()
	return []figure{
		{fmt.Sprintf("ten-fold step of paying load: stamped lane back at its target of 200ms (work rose to 2^%.1f)",
			peak.Bits()), "≤ 5 s", fmt.Sprintf("%.1f s", back.Seconds()), back <= 5*time.Second},
		{"… nothing is asked any more, after its end", "≤ 60 s", fmt.Sprintf("%.1f s", dormant.Seconds()),
			dormant <= 60*time.Second},
	}
}

// The scene of S7.
const (
	places    = 64                    // of the upstream
	service   = 50 * time.Millisecond // each
	people    = 200.0                 // requests a second that are always there: a sixth of what can be done
	browser   = 3e6                   // hashes a second of one solver
	attack    = 30 * time.Second      // how long
	step      = time.Millisecond
	targetLag = 200 * time.Millisecond
)

// A journey is a request on its way through the lanes.
type journey struct {
	hold weir.Hold
	turn *weir.Turn
	ends time.Time
}

// A lane is what S7 simulates.
type lane struct {
	now     time.Time
	lanes   *admission.Lanes
	till    *stamp.Throttle
	waiting []*journey
	inside  []*journey
	owed    float64
	came    int
}

func tenfold() (back, dormant time.Duration, peak stamp.Work) {
	s := &lane{now: when, lanes: try(admission.New(admission.Options{Concurrent: places, PerClient: 10_000}, when)),
		till: try(stamp.NewThrottle(stamp.Options{}, when, nil))}
	s.lanes.Alarm(func(time.Time) {})
	capacity := float64(places) / service.Seconds()
	first := float64(stamp.Options{}.WithDefaults().First)
	budget := 10 * capacity * first // hashes a second: ten times what can be done, at the first price
	begin, end := when.Add(5*time.Second), when.Add(5*time.Second+attack)
	works := make([]stamp.Work, 0, 100_000) // asked for, by the step
	var over, quiet time.Time
	for ; s.now.Before(end.Add(90 * time.Second)); s.now = s.now.Add(step) {
		s.settle()
		s.lanes.Advance(s.now)
		share, delay := s.lanes.Load(s.now)
		work := s.till.Observe(weir.Load{Of: "gate", Share: share, Delay: delay}, s.now)
		works = append(works, work)
		s.lanes.Asked(uint64(work))
		peak = max(peak, work)
		rate, paid := people, work
		if s.now.After(begin) && s.now.Before(end) {
			// A client that comes now pays what was asked when it began to solve.
			asked := 0.0
			for i, w := range slices.Backward(works) {
				if ago := len(works) - 1 - i; time.Duration(ago)*step >=
					time.Duration(float64(w)/browser*float64(time.Second)) {
					asked, paid = float64(w), w
					break
				}
			}
			rate += min(10*capacity, budget/max(asked, first))
			if delay > targetLag {
				over = s.now
			}
		}
		for s.owed += rate * step.Seconds(); s.owed >= 1; s.owed-- {
			s.arrive(paid)
		}
		if s.now.After(end) && work > 0 {
			quiet = s.now
		}
	}
	return max(over.Sub(begin), 0), max(quiet.Sub(end), 0), peak
}

// arrive lets a request in that has paid what was asked. Where nothing is asked, it has paid nothing and goes to the
// general pool.
func (s *lane) arrive(work stamp.Work) {
	s.came++ // each is from a network of its own: one client alone would not affect the others
	ev := weir.Event{Time: s.now,
		Source: netip.AddrFrom4([4]byte{10, byte(s.came >> 16), byte(s.came >> 8), byte(s.came)})}
	ev.Purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
		return weir.Paid{Work: uint64(work)}, nil
	})
	ev.Purse.Open(context.Background(), &ev)
	var a weir.Answer
	check(s.lanes.Judge(context.Background(), &ev, &a))
	j := &journey{hold: a.Hold}
	a.Clear()
	s.lanes.Enter(&j.hold, s.now, &a)
	switch a.Verdict {
	case weir.Admit:
		j.ends = s.now.Add(service)
		s.inside = append(s.inside, j)
	case weir.Wait:
		j.turn = a.Turn
		s.waiting = append(s.waiting, j)
	default:
		s.lanes.Settle(j.hold, weir.Outcome{Time: s.now})
	}
}

// settle ends what is done, and begins what was called.
func (s *lane) settle() {
	for len(s.inside) > 0 && !s.inside[0].ends.After(s.now) {
		s.lanes.Settle(s.inside[0].hold, weir.Outcome{Time: s.now, Done: true})
		s.inside = s.inside[1:]
	}
	waiting := s.waiting[:0]
	for _, j := range s.waiting {
		select {
		case <-j.turn.Called():
			if j.turn.Refused() == weir.NoReason {
				j.ends = s.now.Add(service)
				s.inside = append(s.inside, j)
			} else {
				s.lanes.Settle(j.hold, weir.Outcome{Time: s.now})
			}
		default:
			waiting = append(waiting, j)
		}
	}
	s.waiting = waiting
}
