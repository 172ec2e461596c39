package console

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func (b *backend) Demo() Demo { return b.demo }

func (b *backend) Farm() Farm {
	if b.farm == nil {
		return nil
	}
	return b.farm
}

// fakeFarm notes what it is told.
type fakeFarm struct{ told []string }

func (f *fakeFarm) Status() FarmStatus {
	return FarmStatus{Node: "a", Offset: 3, Sent: 4, Missed: 1, Nodes: []NodeStatus{{Name: "a", State: "here"},
		{Name: "b", State: "up", OffsetMS: -250, LagMS: 2, Differs: true}, {Name: "c", State: "lost"},
		{Name: "x", State: "refused", Why: "it has another secret"}},
		Counters: &CounterStatus{Address: "redis://10.0.0.9:6379", Engine: "4f1c", State: "stalled", Calls: 7, Failures: 3,
			Refused: 40, Latency: Latency{P50: 0.3, P99: 20}, Error: "no <answer> in time", Sum: 0.5,
			Calltimes: []Calltime{{0.001, 4}, {0.02, 2}, {0, 1}}}}
}

func (f *fakeFarm) Shadow(_ context.Context, s Shadow, by string) ([]NodeResult, error) {
	f.told = append(f.told, "shadow by "+by)
	return []NodeResult{{Node: "a"}, {Node: "b", Error: "it is lost"}}, nil
}

func (f *fakeFarm) Reload(_ context.Context, by string) ([]NodeResult, error) {
	f.told = append(f.told, "reload by "+by)
	return nil, Rejected("nothing was changed")
}

func (f *fakeFarm) Forget(_ context.Context, node, by string) ([]NodeResult, error) {
	f.told = append(f.told, "forget "+node+" by "+by)
	return []NodeResult{{Node: "a"}}, nil
}

func (f *fakeFarm) Leave(_ context.Context, by string) error {
	f.told = append(f.told, "leave by "+by)
	return nil
}

// TestFarmOrders: orders reach the farm with the operator's name; a weir that is alone says so.
func TestFarmOrders(t *testing.T) {
	b := newBackend()
	path := socketPath(t)
	control(t, path, b)
	c := NewClient(path)
	ctx := t.Context()
	if _, err := FarmReloadCall.Ask(ctx, c, None{}); err == nil || !strings.Contains(err.Error(), "alone") {
		t.Error(err)
	}
	if _, err := FarmShadowCall.Ask(ctx, c, Shadow{All: true}); err == nil || !strings.Contains(err.Error(), "alone") {
		t.Error(err)
	}
	b.farm = &fakeFarm{}
	r, err := FarmShadowCall.Ask(ctx, c, Shadow{All: true, On: true})
	if err != nil || !slices.Equal(r.Nodes, []NodeResult{{Node: "a"}, {Node: "b", Error: "it is lost"}}) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := FarmReloadCall.Ask(ctx, c, None{}); err == nil || err.Error() != "nothing was changed" {
		t.Error(err)
	}
	_, forgot := FarmForgetCall.Ask(ctx, c, FarmNode{Node: "c/../d"})
	_, left := FarmLeaveCall.Ask(ctx, c, None{})
	if err := errors.Join(forgot, left); err != nil {
		t.Error(err)
	}
	by := " by " + strings.TrimPrefix(b.farm.told[0], "shadow by ")
	if want := []string{"shadow" + by, "reload" + by, "forget c/../d" + by, "leave" + by}; !slices.Equal(b.farm.told, want) {
		t.Errorf("%q", b.farm.told)
	}
}

// TestFarmMetrics: a node that is lost or refused shows.
func TestFarmMetrics(t *testing.T) {
	b := newBackend()
	b.farm = &fakeFarm{}
	text := scraped(t, b)
	for _, want := range []string{`weir_farm_nodes{state="lost"} 1`, `weir_farm_nodes{state="refused"} 1`,
		`weir_farm_nodes{state="left"} 0`, `weir_farm_node_up{node="b"} 1`, `weir_farm_node_up{node="c"} 0`,
		`weir_farm_node_offset_seconds{node="b"} -0.25`, `weir_farm_node_lag_seconds{node="b"} 0.002`,
		`weir_farm_node_config_differs{node="b"} 1`, "weir_farm_offset_seconds 0.003",
		`weir_farm_messages_total{direction="sent"} 4`, "weir_farm_missed_total 1", "weir_farm_counters_up 0",
		"weir_farm_counters_calls_total 7", "weir_farm_counters_failures_total 3", "weir_farm_counters_refused_total 40",
		`weir_farm_counters_seconds_bucket{le="0.001"} 4`, `weir_farm_counters_seconds_bucket{le="0.02"} 6`,
		`weir_farm_counters_seconds_bucket{le="+Inf"} 7`, "weir_farm_counters_seconds_count 7",
		"weir_farm_counters_seconds_sum 0.5"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(scraped(t, newBackend()), "weir_farm") {
		t.Error("a weir that is alone has metrics of a farm")
	}
}

// TestFarmCountersOnThePage: the page shows the engine of exact limits, and why it is lost.
func TestFarmCountersOnThePage(t *testing.T) {
	b := newBackend()
	url, _ := serve(t, Options{}, b)
	if _, body, _ := get(t, "GET", url+"/", ""); strings.Contains(body, "Exact limits") {
		t.Error("a weir that is alone has exact limits of a farm")
	}
	b.farm = &fakeFarm{}
	_, body, _ := get(t, "GET", url+"/", "")
	for _, want := range []string{"redis://10.0.0.9:6379", `<b class="bad">stalled</b>`, "0.3 ms", "20.0 ms",
		"no &lt;answer&gt; in time"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

func scraped(t *testing.T, b Backend) string {
	t.Helper()
	url, _ := serve(t, Options{}, b)
	_, body, _ := get(t, "GET", url+"/metrics", "")
	return body
}
