package demo

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"weir"
	"weir/admission"
	"weir/config"
	"weir/gate/httpgate"
	"weir/throttle/stamp"
	behind "weir/upstream"
)

// The figures of the scene.
//
// Every client is as slow as a phone: one that has solved a puzzle sooner waits until a phone would have. So the prices
// are real, and this machine does a fraction of the work. The flood asks for several times as much as the service can
// do. The part of it that pays has enough phones to fill the service, until the work has doubled some times.
//
// The work doubles while the load lasts, and ends with it: that can be seen in seconds. Steered by the wait of those
// who paid, as by default, it would stay up for half a minute in case the flood comes again.
const (
	stampPlaces = 8
	stampWork   = 80 * time.Millisecond
	stampLine   = 40 // of the service itself; in front of the gate there is room for all

	stampFrom   = 0.9     // the load from which stamps are asked for
	stampFirst  = 1 << 15 // the work asked for first: a thirtieth of a second
	stampDouble = time.Second
	stampMost   = 400 * time.Millisecond
	stampCovers = 10
	stampReload = time.Second // the page of the waiting room

	stampPeople   = 5
	stampUnscript = 3
	stampFlooders = 96
	stampRest     = 200 * time.Millisecond
	stampGiveUp   = time.Second // what the flood waits for an answer
	stampBots     = 3
	stampTogether = 12 // requests of a bot at a time: fewer than one client may have waiting
)

// spending is how long people and bots have worked in this half, on phones, and whether people pay at all.
type spending struct {
	people, bots atomic.Int64
	thrifty      atomic.Bool // people wait instead
}

func spendingOf(s *Stage) *spending { return s.Props.(*spending) }

// stampScene: under overload, clients that pay with a little work go first and the others wait in line. The work rises
// with the load, until a flood that pays cannot keep up. When the flood has gone, nothing is asked any more.
func stampScene() Scene {
	return Scene{
		Name: "stamps",
		Story: fmt.Sprintf("people, some without scripts, and a flood that comes, learns to pay and goes, in front of a "+
			"service with room for %.0f requests a second",
			stampPlaces/stampWork.Seconds()),
		Weight:  11,
		Preview: 0.2,
		Rule:    fmt.Sprintf("Over a load of %s, who pays with work goes first.", weir.Share(stampFrom)),
		Setup:   setUpStamps,
		Pay:     func(s *Stage, on bool) { spendingOf(s).thrifty.Store(!on) },
		Cast: []Actor{
			{Name: "people", Role: People, Workers: stampPeople, Enter: people(19, paysOrWaits), Pause: between,
				Work: func(s *Stage) time.Duration { return time.Duration(spendingOf(s).people.Load()) }},
			{Name: "no scripts", Role: People, Workers: stampUnscript, Enter: people(18, waits), Turn: untilAlmost,
				Pause: between},
			{Name: "flood", Role: Flood, Workers: stampFlooders, Enter: swarm, Turn: floodTurn,
				Pause: func(r Result) time.Duration {
					if r == Failed { // it tries again at once, or almost: it shares this machine with those it floods
						return stampRest/5 + rand.N(stampRest/5)
					}
					return stampRest/2 + rand.N(stampRest)
				}},
			{Name: "paying flood", Role: Flood, Workers: stampBots * stampTogether, Enter: bots, Turn: botsTurn,
				Pause: func(r Result) time.Duration {
					if r == Served {
						return rand.N(20 * time.Millisecond)
					}
					return stampRest
				}, Work: func(s *Stage) time.Duration { return time.Duration(spendingOf(s).bots.Load()) }},
		},
		Try: func(s *Stage) []string {
			return []string{
				fmt.Sprintf("weir stamp solve --url %s", s.GateURL(0)),
				fmt.Sprintf("weir status --control %s", quoted(s.ControlPath())),
			}
		},
		Tell: tellStamps,
	}
}

func between(Result) time.Duration { return 150*time.Millisecond + rand.N(500*time.Millisecond) }

// untilAlmost leaves time at the end: people who are told to come again in a second must be let in before it.
func untilAlmost(atWork bool, half time.Duration) Span {
	if !atWork {
		return Span{0, half} // then nobody is told so
	}
	return Span{0, max(half-3*stampReload/2, half/2)}
}

// floodTurn lets the flood come after a moment in shadow. At work it is there from the beginning, and goes.
func floodTurn(atWork bool, half time.Duration) Span {
	if !atWork {
		return Span{half / 8, half}
	}
	return Span{0, half * 6 / 10}
}

// botsTurn lets a part of the flood learn to pay.
func botsTurn(atWork bool, half time.Duration) Span {
	if !atWork {
		return Span{}
	}
	return Span{half * 2 / 10, half * 6 / 10}
}

func setUpStamps(s *Stage) (config.Config, error) {
	upstream, err := s.serveFlooded(stampPlaces, stampLine, stampWork)
	if err != nil {
		return config.Config{}, err
	}
	s.Props = new(spending)
	return config.Config{
		HTTP: []httpgate.Options{{
			Listen:   loopback,
			Upstream: behind.To(upstream),
			// All clients are on this machine, and say where they come from as a proxy would.
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Capacity:       &admission.Options{Concurrent: stampPlaces, Reload: weir.Duration(stampReload)},
			Throttles:      []string{"stamps"},
		}},
		Throttles: map[string]config.Throttle{"stamps": {Stamp: &stamp.Options{
			FromLoad: new(weir.Share(stampFrom)), First: stampFirst, DoubleEvery: new(weir.Duration(stampDouble)),
			Doubles: stamp.DoubleWork,
			MaxTime: weir.Duration(stampMost), Covers: stampCovers,
		}}},
	}, nil
}

func tellStamps(r SceneReport) []string {
	h := r.Stamps
	var told []string
	if without := r.Without; without.Flood.Sent > 0 {
		told = append(told, fmt.Sprintf("Without the throttle, the flood's %s requests left the people %s; %s failed.",
			grouped(without.Flood.Sent), got(without.People, "after %s or more"), grouped(without.People.Failed)))
	}
	if h.LeastWork == 0 {
		return append(told, "In so short a time, nothing was asked of anybody. A longer run shows more.")
	}
	people, unscripted := actor(r.Half, "people"), actor(r.Half, "no scripts")
	flood, paying := actor(r.Half, "flood"), actor(r.Half, "paying flood")
	rose := ""
	if h.PeakWork > h.LeastWork {
		rose = fmt.Sprintf(", rising to %s", milliseconds(h.PeakMS))
	}
	told = append(told,
		fmt.Sprintf("With it, weir asked for work: %s of a phone for a stamp%s, at a load of up to %s. People paid, "+
			"as the page does by itself, "+
			"and got %s. Those without scripts waited in line instead, and got %s. The flood that did not pay got %s "+
			"of %s.",
			milliseconds(h.LeastMS), rose, percent(h.PeakLoad), got(people.Figures, "within %s"),
			got(unscripted.Figures, "within %s"),
			grouped(flood.Served), grouped(flood.Sent)))
	if paying.Sent > 0 {
		told = append(told,
			fmt.Sprintf("A part of it learnt to pay: its %d phones worked %s for %s requests. Whoever paid waited %s "+
				"for a place at most.",
				stampBots, seconds(paying.Work), grouped(paying.Served), milliseconds(h.PeakDelay)))
	}
	return append(told, tellCalm(h))
}

func tellCalm(h *Stamps) string {
	switch {
	case h.Dormant != nil:
		return fmt.Sprintf("The flood went, and %s later weir was dormant again: nothing is asked of anybody.",
			seconds(*h.Dormant))
	case h.Calm == 0:
		return fmt.Sprintf("The flood was still there at the end, and weir asked for %s.", milliseconds(h.EndMS))
	}
	return fmt.Sprintf("The flood went. At the end, %s later, weir was not dormant yet: it asked for %s.",
		seconds(h.Calm), milliseconds(h.EndMS))
}

// percent writes a load, which may be many times the capacity.
func percent(v float64) string { return grouped(int64(100*v+0.5)) + "%" }
