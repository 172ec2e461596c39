package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"weir"
	"weir/config"
	"weir/gate/httpgate"
	"weir/throttle/quota"
	behind "weir/upstream"
)

// The figures of the scene. The service has room for all who keep to the limit. Without the throttle the flood fills it
// and its line: it has more workers than both together.
const (
	quotaPlaces   = 8
	quotaLine     = 16
	quotaWork     = 20 * time.Millisecond
	quotaLimit    = 50 // a second, for each account
	quotaBurst    = 5
	quotaWaiting  = 4
	quotaAtOnce   = 4
	quotaFlooders = 32
)

// accountHeader names the account of a request.
const accountHeader = "X-Api-Key"

// quotaScene: limits per account keep one customer from taking the service away from the others. A little over the
// limit waits for its turn; the rest of a flood is refused at once.
func quotaScene() Scene {
	polite := func(name string) Actor {
		return Actor{Name: name, Role: People, Workers: 1, Enter: visit(name, 1), Pause: func(Result) time.Duration {
			return 150*time.Millisecond + rand.N(150*time.Millisecond)
		}}
	}
	return Scene{
		Name: "quota",
		Story: fmt.Sprintf("two polite accounts and one that floods, in front of a service with room for %.0f requests "+
			"a second",
			quotaPlaces/quotaWork.Seconds()),
		Weight:         3,
		Rule:           fmt.Sprintf("Each account may send %d a second.", quotaLimit),
		LimitPerSecond: quotaLimit,
		// As many as there are seconds that the half may touch, in the worst case.
		Allows: func(h Half) int64 { return quotaLimit * (int64(h.Seconds) + 2) },
		Setup:  setUpQuota,
		Cast: []Actor{
			polite("alice"),
			polite("bob"),
			{Name: "mallory", Role: Flood, Workers: quotaFlooders, Enter: visit("mallory", quotaFlooders),
				Pause: func(r Result) time.Duration {
					if r == Served {
						return 0
					}
					// The flood shares this machine with the service: without a bound the processor would run out
					// first.
					return 10 * time.Millisecond
				}},
		},
		Try: func(s *Stage) []string {
			return []string{
				fmt.Sprintf("curl -i -H '%s: you' %s", accountHeader, s.GateURL(0)),
				fmt.Sprintf("weir account get mallory --control %s", quoted(s.ControlPath())),
			}
		},
		Tell: tellQuota,
	}
}

func setUpQuota(s *Stage) (config.Config, error) {
	upstream, err := s.serveFlooded(quotaPlaces, quotaLine, quotaWork)
	if err != nil {
		return config.Config{}, err
	}
	return config.Config{
		HTTP: []httpgate.Options{{
			Listen:    loopback,
			Upstream:  behind.To(upstream),
			Account:   []string{"header:" + accountHeader},
			Throttles: []string{"plans"},
		}},
		Throttles: map[string]config.Throttle{"plans": {Quota: &quota.Options{Policies: []quota.Policy{
			{
				Name: "per-second", Kind: quota.Requests, Limit: quota.Count(quotaLimit),
				Period: weir.Period{Length: time.Second},
				Window: quota.GCRA, Burst: quota.Count(quotaBurst),
				Over: quota.OverDelay, Delay: quota.Delay{Max: quotaWaiting, MaxWait: weir.Duration(time.Second)},
			},
			{Name: "at-once", Kind: quota.Concurrent, Limit: quota.Count(quotaAtOnce)},
		}}}},
	}, nil
}

func tellQuota(r SceneReport) []string {
	people, flood := names(r.Actors, People), names(r.Actors, Flood)
	without, with := r.Without.People, r.People
	told := []string{
		fmt.Sprintf("Without the throttle, the %s requests of %s left %s %s; %s failed.",
			grouped(r.Without.Flood.Sent), flood, people, got(without, "after %s or more"), grouped(without.Failed)),
		fmt.Sprintf("With it, %s got %s, while %s, at a limit of %d a second, got %s of %s in %s: %s waited for "+
			"their turn, %s were refused.",
			people, got(with, "within %s"), flood, quotaLimit, grouped(r.Flood.Served), grouped(r.Flood.Sent),
			seconds(r.Seconds),
			grouped(r.Delayed), grouped(r.Flood.Refused)),
	}
	if r.Without.Flood.Sent == 0 {
		return told[1:]
	}
	return told
}

// got says how many requests were served, and how long the median took.
func got(f Figures, how string) string {
	told := fmt.Sprintf("%s of their %s (%s)", grouped(f.Served), grouped(f.Sent), share(f))
	if f.Served > 0 {
		told += ", half of those " + fmt.Sprintf(how, milliseconds(f.P50))
	}
	return told
}
