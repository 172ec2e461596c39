package demo

import (
	"math"
	"time"

	"weir/console"
	"weir/throttle/stamp"
)

// A strain is the load at the gate of a scene, and the work that is asked for. The zero value has none.
type strain struct {
	algorithm stamp.Algorithm
	known     bool
	first     counters // when the half began
	last      counters
	half      Stamps
	left      time.Time // when the flood was seen to be gone; zero while it is there
	at        time.Time // of the last look
}

// counters are what a gate with stamps has counted since the start.
type counters struct{ asked, stamped, pool uint64 }

func (s *strain) begin() {
	s.first, s.left = s.last, time.Time{}
	s.half = Stamps{}
}

func (s *strain) look(status *console.Status, flooded bool, now time.Time) {
	load, work, ok := s.read(status)
	if !ok {
		return
	}
	s.known, s.at = true, now
	h := &s.half
	h.PeakLoad, h.PeakWork, h.EndWork = max(h.PeakLoad, load), max(h.PeakWork, work), work
	if work > 0 && (h.LeastWork == 0 || work < h.LeastWork) {
		h.LeastWork = work
	}
	switch {
	case flooded:
		s.left, h.Dormant = time.Time{}, nil
		return
	case s.left.IsZero():
		s.left = now
	}
	switch {
	case work > 0:
		h.Dormant = nil
	case h.Dormant == nil && h.LeastWork > 0:
		after := tenths(now.Sub(s.left))
		h.Dormant = &after
	}
}

// read finds the gate with a capacity, and the throttle that asks for stamps.
func (s *strain) read(status *console.Status) (load float64, work uint64, ok bool) {
	for _, g := range status.Gates {
		if c := g.Capacity; c != nil {
			ok, load = true, c.Load
			s.half.PeakDelay = max(s.half.PeakDelay, c.Delay)
			s.last.stamped, s.last.pool = c.LetIn["stamped"], c.LetIn["pool"]
		}
	}
	for _, t := range status.Throttles {
		if t.Stamp != nil {
			work, s.last.asked = t.Stamp.Most(), t.Stamp.Challenged
			_ = s.algorithm.UnmarshalText([]byte(t.Stamp.Algorithm)) // it says so itself
		}
	}
	return load, work, ok
}

// phone returns how many milliseconds a phone works on a stamp.
func (s *strain) phone(work uint64) float64 {
	return math.Round(float64(stamp.Work(work).Time(s.algorithm).Microseconds())/100) / 10
}

// report sums up the half. It returns nil where there are no stamps.
func (s *strain) report() *Stamps {
	if !s.known {
		return nil
	}
	h := s.half
	h.LeastMS, h.PeakMS, h.EndMS = s.phone(h.LeastWork), s.phone(h.PeakWork), s.phone(h.EndWork)
	h.Asked, h.Paid, h.Pool = int64(s.last.asked-s.first.asked), int64(s.last.stamped-s.first.stamped),
		int64(s.last.pool-s.first.pool)
	if !s.left.IsZero() {
		h.Calm = tenths(s.at.Sub(s.left))
	}
	return &h
}

// tenths rounds to tenths of seconds: looks are not more frequent than that.
func tenths(d time.Duration) float64 { return math.Round(d.Seconds()*10) / 10 }
