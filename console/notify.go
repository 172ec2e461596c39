package console

import (
	"net/http"

	"weir/console/access"
	"weir/notify"
)

var (
	NotifyListCall = define(http.MethodGet, "/notify", access.View, "notify list",
		"Shows who gets notices of attacks, stopped users and the like, and whether they could be delivered.",
		func(q *Request, _ *None) (NotifyTargets, error) { return NotifyTargets{q.backend.NotifyTargets()}, nil })

	NotifyTestCall = define(http.MethodPost, "/notify/test", access.Act, "notify test",
		"Sends a test to everybody who is told, and shows what each answered.",
		func(q *Request, _ *None) (NotifyResults, error) {
			results := q.backend.TryNotify(q, q.by())
			if len(results) == 0 {
				return NotifyResults{}, errNobodyTold
			}
			return NotifyResults{results}, nil
		}).saying(func(_ *None, out NotifyResults) string {
		bad := 0
		for _, r := range out.Results {
			if r.Error != "" {
				bad++
			}
		}
		if bad > 0 {
			return several(bad, "test") + " did not arrive: the list says why."
		}
		return "Sent: every target has accepted the test."
	})
)

var errNobodyTold = NotFound("there are no targets for notices (notify: in the configuration lists them)")

// NotifyTargets are who is told, in the order of the configuration.
type NotifyTargets struct {
	Targets []notify.Stats `json:"targets"`
}

// NotifyResults are what became of a test, in the order of the configuration.
type NotifyResults struct {
	Results []notify.Result `json:"results"`
}

// collectNotices puts how targets do into the metrics. Two targets with the same name are one.
func collectNotices(s scrape, targets []notify.Stats) {
	sums := map[string]notify.Stats{}
	for _, t := range targets {
		sum := sums[t.Target]
		sum.Sent += t.Sent
		sum.Dropped += t.Dropped
		sum.Failed += t.Failed
		sum.Waiting += t.Waiting
		sums[t.Target] = sum
	}
	for name, t := range sums {
		put(s, "weir_notices_total", t.Sent, name, "sent")
		put(s, "weir_notices_total", t.Dropped, name, "dropped")
		put(s, "weir_notices_failed_total", t.Failed, name)
		put(s, "weir_notices_waiting", t.Waiting, name)
	}
}
