package refusal

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// causes are answers of which many have the same place in remembered.
func causes() (all []weir.Answer) {
	for why := weir.NoReason; why <= weir.TooMany; why++ {
		for _, f := range []weir.Figure{
			{},
			{By: "plans", Rule: "hourly", Unit: "requests", Limit: 5, Window: weir.Window(time.Hour)},
			{By: "plans", Rule: "hourly", Unit: "requests", Limit: 5 + int64(len(remembered)), Window: weir.Window(time.Hour)},
			{By: "edge", Rule: "hourly", Unit: "requests", Limit: 5, Window: weir.Window(time.Hour), Remaining: 3},
			{By: "plans", Rule: "hourly", Unit: "requests", Limit: 5, Window: weir.Window(time.Minute)},
			{By: "plans", Rule: "yearly", Unit: "bytes", Limit: 5, Window: weir.Window(time.Minute), Remaining: -1},
			{By: "plans", Rule: "<\"é\">", Unit: "at once", Limit: 5},
		} {
			all = append(all, weir.Answer{Verdict: weir.Refuse, Reason: why, Figure: f, Until: noon.Add(time.Minute)})
		}
	}
	return all
}

// TestCommon: what is kept of refusals never gets into those of another cause.
func TestCommon(t *testing.T) {
	all := causes()
	for range 3 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for i := range all {
			a, own := &all[i], i%2 == 0
			doc := Of(a, noon, own)
			doc.RequestID = "abc"
			if doc.Status != Status(a, own) || doc.Detail != Detail(nil, a) || doc.Policy != a.Rule ||
				doc.Throttle != a.By || doc.Reason != a.Reason.String() || doc.RetryAfter != RetryAfter(a, noon) {
				t.Errorf("%+v: %+v", a, doc)
			}
			if counts := a.Unit != ""; counts != (doc.Limit != nil) || counts &&
				(*doc.Limit != a.Limit || *doc.Remaining != a.Remaining || doc.Unit != a.Unit) {
				t.Errorf("%+v: %+v", a, doc)
			}
			if want, err := json.Marshal(&doc); err != nil || string(doc.AppendJSON(nil)) != string(want) {
				t.Errorf("\n got %s\nwant %s", doc.AppendJSON(nil), want)
			}
		}
	}
}

// TestKnownCauseAllocatesNothing: in a flood, refusals are made of what is kept.
func TestKnownCauseAllocatesNothing(t *testing.T) {
	needs.Unwatched(t) // the race detector allocates
	a := causes()[8]
	buffer := make([]byte, 0, 1<<10)
	if n := testing.AllocsPerRun(100, func() {
		doc := Of(&a, noon, false)
		buffer = doc.AppendJSON(buffer[:0])
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
