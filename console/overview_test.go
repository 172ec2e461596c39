package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir"
)

var nan = float32(math.NaN())

// TestValues: four digits are written, and what is written can be read.
func TestValues(t *testing.T) {
	t.Parallel()
	v := Values{0, 1, -3, 999999, 1e6, 0.000123456, 12.34567, nan, float32(math.Inf(1)), 3.4e38}
	text, err := json.Marshal(v)
	if want := `[0,1,-3,999999,1e+06,0.0001235,12.35,null,null,3.4e+38]`; err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
	var back Values
	if err := json.Unmarshal(text, &back); err != nil || len(back) != len(v) || back[3] != 999999 ||
		!math.IsNaN(float64(back[7])) {
		t.Errorf("%v %v", back, err)
	}
	for _, bad := range []string{`{}`, `["x"]`, `[1`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is read as %v", bad, back)
		}
	}
}

func FuzzValues(f *testing.F) {
	f.Add(`[0,1,null,1e+06]`)
	f.Fuzz(func(t *testing.T, text string) {
		var v, again Values
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		out, err := json.Marshal(v)
		if err != nil || json.Unmarshal(out, &again) != nil || len(again) != len(v) {
			t.Errorf("%s became %s: %v", text, out, err)
		}
	})
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	s := Spread{Bounds: []float64{1, 2, 4}, Counts: []uint64{10, 10, 10, 10}}
	for _, c := range []struct {
		share  float64
		before []uint64
		want   float32
	}{
		{0.25, nil, 1}, {0.5, nil, 2}, {0.375, nil, 1.5}, {0.75, nil, 4}, {0.99, nil, 4}, {0.125, nil, 0.5},
		{0.5, []uint64{10, 0, 10, 10}, 1.5}, {0.5, []uint64{10, 10, 10, 0}, 4},
		{0.5, []uint64{10, 10, 10, 10}, nan},
		{0.25, []uint64{99, 99, 99, 99}, 1}, // the counters began anew
	} {
		if got := s.Quantile(c.share, c.before); got != c.want && !(got != got && c.want != c.want) {
			t.Errorf("%v since %v: %v, want %v", c.share, c.before, got, c.want)
		}
	}
}

// TestGateCounts: what the metrics count can be read again, without a scrape.
func TestGateCounts(t *testing.T) {
	t.Parallel()
	m := NewMetrics("test")
	h, tcp := m.HTTP(":80"), m.TCP(":81")
	for range 99 {
		h.Done(200, weir.Admit, 20*time.Microsecond, time.Millisecond)
	}
	h.Done(999, weir.Refuse, 3*time.Second, time.Millisecond)
	tcp.Judged(weir.Wait)
	got := h.Counts()
	if got.Verdicts != [4]uint64{99, 0, 0, 1} {
		t.Errorf("%v", got.Verdicts)
	}
	if half, most := got.Added.Quantile(0.5, nil), got.Added.Quantile(0.995, nil); half < 10e-6 || half > 25e-6 ||
		most < 2.5 || most > 5 {
		t.Errorf("half within %v, most within %v", half, most)
	}
	if got := tcp.Counts(); got.Verdicts != [4]uint64{0, 1, 0, 0} || len(got.Added.Counts) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestWouldRefuse(t *testing.T) {
	t.Parallel()
	n, of := Totals{Events: map[Measure]float64{Admitted: 99, WouldAdmit: 7, WouldDelay: 1, WouldChallenge: 2,
		WouldRefuse: 3}}.WouldRefuse()
	if n != 6 || of != 13 {
		t.Errorf("%v of %v", n, of)
	}
	var s Series
	if !math.IsNaN(s.Last(Admitted)) {
		t.Error("an empty series has a last value")
	}
}

// TestOverviewCalls: the two calls, what they ask for, and what is refused.
func TestOverviewCalls(t *testing.T) {
	t.Parallel()
	b := newBackend()
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	b.overview = Overview{At: at, State: "serving", Ready: true, Gates: []GateWatch{{Series: Series{Name: ":8080",
		At: []int64{1, 2}, Columns: map[Measure]Values{Admitted: {1, 2.5}}}, Throttles: []string{}}},
		Throttles: []ThrottleWatch{}, Refusals: []Refusal{}, Changes: []Change{{At: at, By: "weir", What: "started"}}}
	b.refusals = RefusalPage{Refusals: []Refusal{{At: at, Throttle: "plans", Verdict: weir.Refuse,
		Reason: weir.OverLimit}}, Left: 7}
	path := socketPath(t)
	control(t, path, b)
	ctx, c := t.Context(), NewClient(path)

	o, err := OverviewGetCall.Ask(ctx, c, OverviewQuery{Window: OneHour, Since: 5, Top: 3, Last: 4})
	if err != nil || !reflect.DeepEqual(o, func() Overview {
		want := b.overview
		want.Gates[0].Hour.Events = o.Gates[0].Hour.Events
		return want
	}()) {
		t.Errorf("%+v %v", o, err)
	}
	if b.looked != (OverviewQuery{Window: OneHour, Since: 5, Top: 3, Last: 4}) {
		t.Errorf("%+v", b.looked)
	}
	if _, err := OverviewGetCall.Ask(ctx, c, OverviewQuery{}); err != nil || b.looked != (OverviewQuery{}) {
		t.Errorf("%+v %v", b.looked, err)
	}
	r, err := RefusalsListCall.Ask(ctx, c, RefusalQuery{Throttle: "plans", ID: "a&b", Who: "é", Limit: MaxRefusals})
	if err != nil || !reflect.DeepEqual(r, b.refusals) ||
		b.sought != (RefusalQuery{Throttle: "plans", ID: "a&b", Who: "é", Limit: MaxRefusals}) {
		t.Errorf("%+v %+v %v", r, b.sought, err)
	}
	for path, want := range map[string]string{
		"/api/v1/overview?window=2h":                            "window: 5m or 1h",
		"/api/v1/overview?since=yesterday":                      "since: ",
		"/api/v1/overview?since=-1":                             "since: ",
		"/api/v1/overview?top=-1":                               "top: a number from 1 to 256",
		fmt.Sprintf("/api/v1/overview?top=%d", MaxTop+1):        "top: a number from 1 to 256",
		fmt.Sprintf("/api/v1/overview?last=%d", MaxChanges+1):   "last: a number from 1 to 256",
		fmt.Sprintf("/api/v1/refusals?limit=%d", MaxRefusals+1): "limit: a number from 1 to 4096",
		"/api/v1/refusals?limit=many":                           "limit: \"many\" is not a whole number",
	} {
		var e *Error
		if err := c.call(ctx, http.MethodGet, path, nil, nil); !errors.As(err, &e) || e.Code != 400 ||
			!strings.Contains(e.Msg, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestLead: the first sentence of the overview says who is turned away and who waits, and that nothing is turned away
// only where that is so.
func TestLead(t *testing.T) {
	t.Parallel()
	at := func(name string, values map[Measure]float32) Series {
		s := Series{Name: name, Unit: "requests", Columns: map[Measure]Values{}}
		for m, v := range values {
			s.Columns[m] = Values{9, v}
		}
		return s
	}
	gate := func(values map[Measure]float32) GateWatch {
		return GateWatch{Series: at(":80", values), Address: "[::]:80"}
	}
	for want, c := range map[string]struct {
		Overview
		alarm bool
	}{
		"Nothing is turned away now.": {Overview: Overview{Gates: []GateWatch{gate(map[Measure]float32{Admitted: 3, Load: 0.8}),
			gate(nil)}}},
		"Waiting at :80: 12 requests, 40 people in the waiting room. The load is 312%. Nothing is turned away now.": {
			Overview{Gates: []GateWatch{gate(map[Measure]float32{Waiting: 12, InLine: 40, Load: 3.12})}}, true},
		"Waiting at :80: 5 requests. Nothing is turned away now.": {
			Overview: Overview{Gates: []GateWatch{gate(map[Measure]float32{Waiting: 5})}}},
		"Waiting at :80: 1 person in the waiting room. The load is 150%. Nothing is turned away now.": {Overview: Overview{
			Gates:  []GateWatch{gate(nil)},
			Routes: []RouteWatch{{Series: at("shop", map[Measure]float32{InLine: 1, Load: 1.5}), Address: "[::]:80 shop"}}}},
		"7 of 9 requests a second are turned away at :80. Waiting at :80: 1 request.": {
			Overview{Gates: []GateWatch{gate(map[Measure]float32{Admitted: 2, Refused: 3, Challenged: 4,
				Waiting: 1})}}, true},
		"Nothing is turned away now. Without shadow, 8 of 9 requests a second would be held back at :80.": {
			Overview: Overview{Gates: []GateWatch{gate(map[Measure]float32{Admitted: 9, Would: 8, Load: 10.5})}}},
		"Nothing is turned away now. Without shadow, 69 of 69 requests a second would be held back at :80.": {
			Overview: Overview{Gates: []GateWatch{gate(map[Measure]float32{Admitted: 51, Would: 69})}}},
		"30 of 100 connections a second are turned away at the door of :80.": {
			Overview: Overview{Gates: []GateWatch{gate(map[Measure]float32{Admitted: 70, Connections: 100,
				TurnedAway: 30})}}},
	} {
		if got, alarm := lead(&c.Overview); got != want || alarm != c.alarm {
			t.Errorf("%q, %v; want %q", got, alarm, want)
		}
	}
}
