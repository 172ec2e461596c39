package console

import (
	"fmt"
	"testing"
	"time"
	"weir/throttle/stamp"
)

func TestStampRows(t *testing.T) {
	sample := func(gate, throttle string, work uint64) GateHistory {
		return GateHistory{Gate: gate, Stamps: throttle,
			Samples: []Sample{{At: noon, Work: work, Takes: time.Duration(work) * time.Microsecond}}}
	}
	for name, c := range map[string]struct {
		work map[string]uint64
		past []GateHistory
		want string
	}{
		"nobody came yet":  {nil, nil, "[]"},
		"nothing is asked": {map[string]uint64{"a": 0}, []GateHistory{sample("a", "stamps", 0)}, "[]"},
		"one gate needs no name": {map[string]uint64{"a": 1024}, []GateHistory{sample("a", "stamps", 1024)},
			"[{ 10 bits, about 1ms on a phone}]"},
		"as the plot says": {map[string]uint64{"a": 4096}, []GateHistory{sample("a", "stamps", 2048)},
			"[{ 11 bits, about 2ms on a phone}]"},
		"the plot is of another": {map[string]uint64{"a": 4096}, []GateHistory{sample("a", "others", 2048)},
			"[{ 12 bits}]"},
		"no sample yet": {map[string]uint64{"a": 4096}, []GateHistory{{Gate: "a", Stamps: "stamps"}},
			"[{ 12 bits}]"},
		"where there is none":       {map[string]uint64{"": 16}, nil, "[{ 4 bits}]"},
		"several gates, in order":   {map[string]uint64{"b": 2, "a": 4}, nil, "[{a 2 bits} {b 1 bits}]"},
		"one of several gates":      {map[string]uint64{"b": 0, "a": 4}, nil, "[{a 2 bits}]"},
		"it was asked until lately": {map[string]uint64{"a": 4096}, []GateHistory{sample("a", "stamps", 0)}, "[]"},
	} {
		rows := stampRows([]ThrottleStatus{{Throttle: "plans"}, {Throttle: "stamps",
			Stamp: &Stamp{Stats: stamp.Stats{Work: c.work}}}},
			c.past)
		if len(rows) != 1 || rows[0].Throttle != "stamps" || fmt.Sprint(rows[0].Asked) != c.want {
			t.Errorf("%s: %+v, want %s", name, rows, c.want)
		}
	}
}

func TestCapacityRows(t *testing.T) {
	rows := capacityRows([]GateStatus{{Gate: "a"}, {Gate: "b", Capacity: &Capacity{Load: 1.234, Delay: 212.4}}})
	if len(rows) != 1 || rows[0].Gate != "b" || rows[0].Load != "123%" || rows[0].Wait.String() != "212ms" {
		t.Errorf("%+v", rows)
	}
}

func TestServerRows(t *testing.T) {
	rows := serverRows([]GateStatus{{Gate: "a", Servers: []ServerStatus{{Server: "alone", Healthy: true}}},
		{Gate: "b", Servers: []ServerStatus{{Server: "alone and out"}}}, {Gate: "c"},
		{Gate: "d", Servers: []ServerStatus{{Server: "one", Healthy: true}, {Server: "two", Failures: 3}}}})
	if got := fmt.Sprintf("%v", rows); got != "[{{alone and out false 0 0 0 0 []} b} "+
		"{{one true 0 0 0 0 []} d} {{two false 0 0 0 3 []} d}]" {
		t.Error(got)
	}
	out, well := ServerStatus{}, ServerStatus{Healthy: true}
	for want, all := range map[string][]ServerStatus{"": {well, well}, "No server behind a is healthy": {out},
		"2 of 3 servers behind a are unhealthy": {out, well, out}} {
		if got := (GateStatus{Gate: "a", Servers: all}).Unhealthy(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestServerFor: a server says which routes it is for, and not more than a few of them.
func TestServerFor(t *testing.T) {
	for want, routes := range map[string][]string{"": nil, "a": {"a"}, "a, b, c": {"a", "b", "c"},
		"a, b, c and 2 more": {"a", "b", "c", "d", "e"}} {
		if got := (ServerStatus{Routes: routes}).For(); got != want {
			t.Errorf("%v: %q, want %q", routes, got, want)
		}
	}
}
