package demo

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"weir"
	"weir/config"
	"weir/gate/apigate"
	"weir/gate/httpgate"
	"weir/throttle/bloom"
	behind "weir/upstream"
)

// The figures of the scene.
//
// The flood comes to two doors behind which one limiter stands: as connections to the gate, and as attempts at a
// service next door, which asks weir over the decision API. Questions are cheap, so that all of the networks come there
// within seconds. The limiter grants each network a burst. The bursts of so many networks alone would overrun the
// service behind the gate, so that only some of them come to it at a time.
const (
	bloomNetworks = 50_000 // of the flood
	bloomAskers   = 3      // for the service next door
	bloomTogether = 10     // networks that it asks about at a time
	bloomAskRest  = 2 * time.Millisecond
	bloomLanes    = 6              // of those at a time
	bloomWants    = bloomBurst + 1 // connections of each
	bloomTries    = 24             // when it is turned away
	bloomFlooders = 192            // more than the service has places and line together
	bloomRest     = 30 * time.Millisecond

	bloomLimit = 6 // connections and attempts a minute, for each network
	bloomBurst = 3
	bloomK     = 3

	bloomCollateral = 0.0001 // of innocent networks

	bloomPlaces = 20
	bloomLine   = 60 // tokens come for all networks at once: then there is a burst from every lane
	bloomWork   = 20 * time.Millisecond

	// People, each from a network of its own, who come every 40 seconds at most. A single limiter gives more than that:
	// it is enough if the flood has left them one.
	bloomPeople = 800
)

// The first networks of the flood and of people: 127.1.0.0/24 and 127.201.0.0/24.
const (
	bloomFloodFrom  = 1 << 8
	bloomPeopleFrom = 201 << 8
)

type bloomCast struct {
	people, flood, attempts *crowd
	login                   *login
}

// bloomScene: a limit for each source network keeps out a flood from very many networks, before anything is read from
// it, in memory that does not grow with their number.
func bloomScene() Scene {
	people := func(s *Stage) *crowd { return s.Props.(*bloomCast).people }
	flood := func(s *Stage) *crowd { return s.Props.(*bloomCast).flood }
	next := func(s *Stage) *crowd { return s.Props.(*bloomCast).attempts }
	return Scene{
		Name: "bloom",
		Story: fmt.Sprintf("%d people and a flood from %s networks, in front of a service with room for %s requests a "+
			"second",
			bloomPeople, grouped(bloomNetworks), grouped(int64(bloomPlaces/bloomWork.Seconds()))),
		Weight:         6,
		Rule:           fmt.Sprintf("Each network may come %d times a minute, %d at once.", bloomLimit, bloomBurst),
		LimitPerSecond: bloomLimit / 60.,
		Allows:         bloomAllows,
		Possible:       wideLoopback,
		Setup:          setUpBloom,
		Cast: []Actor{
			{Name: "people", Role: People, Workers: 4, Enter: knock(people), Networks: networksOf(people),
				Pause: func(Result) time.Duration {
					return 200*time.Millisecond + rand.N(400*time.Millisecond)
				}},
			// The flood shares this machine with the service. It is bounded so that neither the processor nor the
			// system's table of connections, which remembers each for some ten seconds, runs out before the service.
			{Name: "flood", Role: Flood, Workers: bloomFlooders, Enter: knock(flood), Networks: amongOthers(flood),
				Pause: func(Result) time.Duration {
					return bloomRest/2 + rand.N(bloomRest)
				}},
			{Name: "next door", Role: Flood, Workers: bloomAskers, Networks: networksOf(next),
				Pause: func(Result) time.Duration { return bloomAskRest }, Enter: attempts(bloomTogether, bloomWants,
					func(s *Stage) (*crowd, *login) { return next(s), s.Props.(*bloomCast).login })},
		},
		Try: func(s *Stage) []string {
			return []string{
				fmt.Sprintf("for i in 1 2 3 4 5; do curl %s; done", s.GateURL(0)),
				fmt.Sprintf("weir status --control %s", quoted(s.ControlPath())),
				fmt.Sprintf("weir plan bloom --attackers %d --collateral %s --k %d", bloomNetworks,
					weir.Share(bloomCollateral), bloomK),
			}
		},
		Tell: tellBloom,
	}
}

func setUpBloom(s *Stage) (config.Config, error) {
	upstream, err := s.serveFlooded(bloomPlaces, bloomLine, bloomWork)
	if err != nil {
		return config.Config{}, err
	}
	cast := &bloomCast{
		people: newCrowd(crowdPlan{first: bloomPeopleFrom, size: bloomPeople, lanes: 1, wants: 1, tries: 1}),
		flood: newCrowd(crowdPlan{first: bloomFloodFrom, size: bloomNetworks, lanes: bloomLanes, wants: bloomWants,
			tries: bloomTries}),
		attempts: newCrowd(crowdPlan{first: bloomFloodFrom, size: bloomNetworks, lanes: 1, wants: 1, tries: 1}),
		login:    newLogin(),
	}
	cast.flood.base = bloomNetworks / 2 / bloomLanes * bloomLanes // not those that have just been next door
	s.Props = cast
	return config.Config{
		HTTP: []httpgate.Options{{Listen: loopback, Upstream: behind.To(upstream), Accept: []string{"edge"}}},
		API: &apigate.Options{Listen: loopback, Tokens: []string{cast.login.token},
			Policies: map[string][]string{"login": {"edge"}}},
		Throttles: map[string]config.Throttle{"edge": {Bloom: &bloom.Options{
			Rate: weir.Rate{Count: bloomLimit, Per: time.Minute}, Burst: bloomBurst, K: bloomK,
			V4: 24, V6: []int{64}, Attackers: bloomNetworks, Collateral: bloomCollateral,
		}}},
	}, nil
}

// bloomAllows: a burst for each network, and the tokens that come meanwhile, for all at once and a burst at a time.
func bloomAllows(h Half) int64 {
	const refill = bloomBurst * time.Minute / bloomLimit
	bursts := 2 + int64(h.Seconds/refill.Seconds())
	return floodNetworks(h) * bloomBurst * bursts
}

func tellBloom(r SceneReport) []string {
	var told []string
	if without := r.Without; without.Flood.Sent > 0 {
		told = append(told,
			fmt.Sprintf("Without the throttle, the flood's %s connections left the people %s; %s failed.",
				grouped(actor(without, "flood").Sent), got(without.People, "after %s or more"),
				grouped(without.People.Failed)))
	}
	gate, next := actor(r.Half, "flood"), actor(r.Half, "next door")
	told = append(told,
		fmt.Sprintf("With it, the people got %s. The flood opened %s connections from %s networks, of which %s got in "+
			"(the limit: %d at once, %d a minute) and %s were reset before anything was read from them.",
			got(r.People, "within %s"), grouped(gate.Sent), grouped(gate.Networks), grouped(gate.Served),
			bloomBurst, bloomLimit, grouped(gate.Refused)))
	if next.Sent > 0 {
		told = append(told,
			fmt.Sprintf("Next door it came %d times from each of %s networks. The service there asked weir over the "+
				"decision API, about "+
				"%d networks at a time, and was told in %s of %s answers which of them to refuse.",
				bloomWants, grouped(next.Networks), bloomTogether, grouped(next.Refused), grouped(next.Sent)))
	}
	return append(told, tellTables(r)...)
}

// actor returns the figures of one actor.
func actor(h Half, name string) (a ActorReport) {
	if i := slices.IndexFunc(h.Actors, func(a ActorReport) bool { return a.Name == name }); i >= 0 {
		a = h.Actors[i]
	}
	return a
}

func floodNetworks(h Half) (n int64) {
	for _, a := range h.Actors {
		if a.Role == Flood {
			n += a.Networks
		}
	}
	return n
}

// tellTables says what the tables take, and how the flood looked to the limiter.
func tellTables(r SceneReport) []string {
	b := r.Bloom
	if b == nil {
		return nil
	}
	came := fmt.Sprintf("All %s networks came", grouped(bloomNetworks))
	if r.FloodNetworks < bloomNetworks {
		came = fmt.Sprintf("In this time, %s of the %s networks came; a longer run brings the others",
			grouped(r.FloodNetworks), grouped(bloomNetworks))
	}
	return []string{fmt.Sprintf("%s. weir counts them in %s, which do not grow. "+
		"By its own estimate, at most %s networks were over their limit at a time, and %s of innocent ones were "+
		"refused for it.",
		came, mebibytes(b.Bytes), grouped(b.Attackers), fraction(b.Collateral))}
}

// fraction writes a share that may be very small.
func fraction(v float64) string {
	const least = 0.00001
	if v > 0 && v < least {
		return "less than " + weir.Share(least).String()
	}
	return weir.Share(v).Rounded().String()
}
