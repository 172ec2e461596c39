package main

import (
	"bytes"
	"testing"
	"time"

	"weir/console"
)

// TestCounters: the engine of exact limits is shown with how it does, and why it is lost.
func TestCounters(t *testing.T) {
	c := &console.CounterStatus{Address: "redis://10.0.0.9:6379", State: "up", Calls: 184022, Failures: 2,
		Latency: console.Latency{P50: 0.31, P99: 1.12}}
	var out bytes.Buffer
	show := func() string {
		out.Reset()
		(&terminal{out: &out}).counters(c)
		return out.String()
	}
	want := `EXACT LIMITS AT        STATE   CALLS  FAILED  NOT MADE     P50     P99
redis://10.0.0.9:6379  up     184022       2         0  0.3 ms  1.1 ms

`
	if got := show(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	c.State, c.Refused, c.Error = "stalled", 9, "no answer\x1b[2J"
	c.Since = time.Date(2031, 5, 6, 7, 8, 9, 0, time.Local)
	want = `EXACT LIMITS AT        STATE     CALLS  FAILED  NOT MADE     P50     P99
redis://10.0.0.9:6379  stalled  184022       2         9  0.3 ms  1.1 ms
lost since 2031-05-06 07:08:09: "no answer\x1b[2J"

`
	if got := show(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	c.State, c.Waiting = "up", []string{"b", "c"}
	want = `EXACT LIMITS AT        STATE   CALLS  FAILED  NOT MADE     P50     P99
redis://10.0.0.9:6379  up     184022       2         9  0.3 ms  1.1 ms
limits are closed until these nodes tell what they have granted: b, c
start them again; one that will not come back: weir farm forget NAME

`
	if got := show(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	c = nil
	if got := show(); got != "" {
		t.Errorf("without an engine: %q", got)
	}
}
