package console

import (
	"math"
	"time"
	"weir/throttle/stamp"
)

// noon is when the samples of these tests end.
var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// flooded is the past of a gate that a flood came to four minutes ago; it has been gone for half a minute.
func flooded() GateHistory {
	h := GateHistory{Gate: "127.0.0.1:8080", Address: "127.0.0.1:8080", Stamps: "stamps"}
	work := 0.0
	for i := range HistoryLength {
		t := float64(i)
		wave := math.Sin(t/7) + 0.5*math.Sin(t/2.3+1) // nothing is ever quite even
		s := Sample{At: noon.Add(time.Duration(i+1-HistoryLength) * time.Second), Load: 0.5 + 0.06*wave,
			Pool: 50 + 6*wave}
		flood := 0.0
		if i >= 60 && i < 270 {
			flood = min((t-60)/15, 1)
		}
		if flood > 0 {
			s.Load += flood * (8 + 0.5*wave)
			s.TurnedAway = flood * (850 + 60*wave)
			s.Stamped, s.Pool = flood*(90+3*wave), (1-flood)*50+10+wave
			work = min(max(work*1.15, 20_000), 1_200_000)
		} else if i >= 270 {
			s.Load, s.Stamped, s.Pool = 0.7+0.06*wave, 20+3*wave, 40+3*wave
			if work *= 0.7; work < 5000 {
				work, s.Stamped, s.Pool = 0, 0, 60+3*wave
			}
		}
		s.Work, s.Takes = uint64(work), time.Duration(work)*time.Microsecond
		h.Samples = append(h.Samples, s)
	}
	return h
}

// underFlood is the same gate in the midst of it, as Status shows it.
func underFlood() (GateHistory, *Capacity, *Stamp) {
	h := flooded()
	h.Samples = h.Samples[:250]
	s := h.Last()
	return h, &Capacity{
			Concurrent: 16, InUse: 16, Load: s.Load, Delay: 212.4, Stamped: 19, Pool: 3, InLine: 1204,
			TurnedAway: 151_234,
			LetIn:      map[string]uint64{"stamped": 16_034, "pool": 4711},
			Refused:    map[string]uint64{"full": 12, "too-many": 345, "expired": 0, "no-show": 7},
		}, &Stamp{Stats: stamp.Stats{
			Algorithm: "sha256-k", Work: map[string]uint64{h.Gate: s.Work}, Issued: 151_300, Accepted: 401,
			Paid: 16_034, Free: 12, Called: 1711,
			Challenged: 151_234, Forged: 3, Replayed: 1, NotPaying: 98_765, Spent: 401,
		}}
}
