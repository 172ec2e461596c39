package console

import (
	"context"
	_ "embed"
	"net/http"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/console/access"
)

// A Farm is the farm that a running weir is a node of.
type Farm interface {
	Status() FarmStatus
	// Shadow takes throttles into shadow, or out of it, on all nodes. by is the operator.
	Shadow(ctx context.Context, s Shadow, by string) ([]NodeResult, error)
	// Reload makes all nodes read their configuration again, this one first: where it fails here, nobody else does.
	Reload(ctx context.Context, by string) ([]NodeResult, error)
	// Forget makes all nodes forget one that is lost.
	Forget(ctx context.Context, node, by string) ([]NodeResult, error)
	// Leave says goodbye to the others. This weir serves on, alone, until it is restarted.
	Leave(ctx context.Context, by string) error
}

// FarmStatus is the farm as this node sees it.
type FarmStatus struct {
	Node   string       `json:"node"`
	Nodes  []NodeStatus `json:"nodes" metric:"-"` // this one first
	Offset float64      `json:"offset_ms" metric:"weir_farm_offset_seconds" per:"1000" help:"How far the farm's time is ahead of this machine's clock."`
	// Among how many nodes limits are divided.
	Share int `json:"share"`
	// How many nodes that can be heard have a part of the limits.
	Parts int `json:"parts"`
	// This one knows what accounts used before it started.
	Knows    bool       `json:"knows"`
	Sent     uint64     `json:"sent" metric:"weir_farm_messages_total" label:"direction=sent" help:"Messages between nodes, by direction: sent or received."`
	Received uint64     `json:"received" metric:"weir_farm_messages_total" label:"direction=received"`
	Dropped  uint64     `json:"dropped" metric:"weir_farm_dropped_total" help:"Messages that could not be sent, or came too fast."`
	Missed   uint64     `json:"missed" metric:"weir_farm_missed_total" help:"Messages of other nodes that never came; snapshots made up for them."`
	Repairs  uint64     `json:"snapshots" metric:"weir_farm_snapshots_total" help:"Snapshots that this node has asked others for."`
	Strange  uint64     `json:"strangers" metric:"weir_farm_strangers_total" help:"Messages under another secret, or of an incompatible version."`
	Left     bool       `json:"left,omitempty"`        // this node has left: it serves alone
	Others   []Stranger `json:"turned_away,omitempty"` // connections that were refused lately
	// The engine in which exact limits are counted, where there is one.
	Counters *CounterStatus `json:"counters,omitempty"`
}

// CounterStatus is the engine in which exact limits are counted, as this node sees it.
type CounterStatus struct {
	Address  string    `json:"address"`          // its URL, without user and password
	Engine   string    `json:"engine,omitempty"` // its identity, as it last said
	State    string    `json:"state"`            // up, stalled (calls fail at once), or unknown before the first answer
	Since    time.Time `json:"since"`
	Calls    uint64    `json:"calls" metric:"weir_farm_counters_calls_total" help:"Calls of the engine of exact limits."`
	Failures uint64    `json:"failures" metric:"weir_farm_counters_failures_total" help:"Calls that the engine of exact limits did not answer in time, or with an error."`
	Refused  uint64    `json:"refused" metric:"weir_farm_counters_refused_total" help:"Calls that were not made while the engine of exact limits was lost."`
	Latency  Latency   `json:"latency_ms"` // of calls in the last minute or two
	// Waiting are nodes that have to tell a new engine what they were granted. Until then it grants nothing of the
	// limits of which they may have been granted something.
	Waiting   []string   `json:"waiting,omitempty"`
	Error     string     `json:"error,omitempty"`
	ErrorAt   time.Time  `json:"error_at,omitzero"`
	Calltimes []Calltime `json:"-"` // for metrics
	Sum       float64    `json:"-"` // of all calls, in seconds
}

// Latency is how long calls take, in milliseconds: half of them no longer than P50, 99 of 100 no longer than P99.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// A Calltime counts calls that took longer than the one before it says, and up to so many seconds. The last one has no
// bound.
type Calltime struct {
	UpTo  float64
	Count uint64
}

// NodeStatus is one node of a farm.
type NodeStatus struct {
	Name     string  `json:"name" label:"node"`
	State    string  `json:"state"` // here, up, lost, left, refused, or unheard: a listed address that does not answer
	Version  string  `json:"version,omitempty"`
	OffsetMS float64 `json:"offset_ms" metric:"weir_farm_node_offset_seconds" per:"1000" help:"How far the clock of another node is ahead of this machine's."`
	LagMS    float64 `json:"lag_ms" metric:"weir_farm_node_lag_seconds" per:"1000" help:"How long the last heartbeat of another node was under way."`
	Config   string  `json:"config,omitempty"` // a fingerprint of its configuration
	// Its configuration is not the one in effect here.
	Differs bool   `json:"config_differs,omitempty" metric:"weir_farm_node_config_differs" help:"1 while another node has another configuration in effect."`
	Why     string `json:"why,omitempty"` // it is refused
}

// A Stranger is somebody whose connection was refused, or who refused one of this node.
type Stranger struct {
	Address string `json:"address"`
	Why     string `json:"why"`
}

// A NodeResult is what one node made of an order to all.
type NodeResult struct {
	Node  string `json:"node"`
	Error string `json:"error,omitempty"`
}

// FarmResult is what all nodes made of an order.
type FarmResult struct {
	Nodes []NodeResult `json:"nodes"`
}

// alone is the answer to orders for a farm where there is none.
func alone() error {
	return NotFound("this weir is alone: its configuration has no farm, or it has left the farm")
}

// A FarmNode names a node.
type FarmNode struct {
	Node string `json:"node"`
}

// toFarm is the function of a call that reaches all nodes.
func toFarm[In any](order func(Farm, *Request, *In) ([]NodeResult, error)) func(*Request, *In) (FarmResult, error) {
	return func(q *Request, in *In) (FarmResult, error) {
		f := q.backend.Farm()
		if f == nil {
			return FarmResult{}, alone()
		}
		nodes, err := order(f, q, in)
		if nodes == nil {
			nodes = []NodeResult{}
		}
		return FarmResult{nodes}, err
	}
}

var (
	FarmReloadCall = define(http.MethodPost, "/farm/reload", access.Admin, "reload --farm",
		"Reloads all nodes of the farm, this one first. If it fails here, no other node reloads.",
		toFarm(func(f Farm, q *Request, _ *None) ([]NodeResult, error) {
			return f.Reload(context.WithoutCancel(q), q.by())
		})).saying(func(_ *None, out FarmResult) string { return out.say("Reloaded") })

	FarmShadowCall = define(http.MethodPost, "/farm/shadow", access.Act, "shadow on --farm, shadow off --farm",
		"Switches throttles to shadow, or back, on all nodes of the farm.",
		toFarm(func(f Farm, q *Request, in *Shadow) ([]NodeResult, error) {
			q.before = shadowStates(q.backend.Throttles())
			return f.Shadow(q, *in, q.by())
		})).saying(func(_ *Shadow, out FarmResult) string { return out.say("Switched") })

	FarmForgetCall = define(http.MethodPost, "/farm/forget", access.Admin, "farm forget",
		"Makes all nodes of the farm forget one that is lost.",
		toFarm(func(f Farm, q *Request, in *FarmNode) ([]NodeResult, error) {
			return f.Forget(q, in.Node, q.by())
		})).saying(func(in *FarmNode, _ FarmResult) string { return "Forgotten: " + in.Node + "." })

	FarmLeaveCall = define(http.MethodPost, "/farm/leave", access.Admin, "farm leave",
		"Takes this node out of its farm. It serves on, alone, until it is restarted.",
		toFarm(func(f Farm, q *Request, _ *None) ([]NodeResult, error) {
			return nil, f.Leave(context.WithoutCancel(q), q.by())
		})).saying(func(*None, FarmResult) string { return "This node has left the farm." })
)

// say tells on how many nodes something was done.
func (r FarmResult) say(done string) string {
	failed := 0
	for _, n := range r.Nodes {
		if n.Error != "" {
			failed++
		}
	}
	text := done + " on " + several(len(r.Nodes)-failed, "node")
	if failed > 0 {
		text += ", and not on " + several(failed, "node")
	}
	return text + "."
}

// collect reports the nodes, and the engine of exact limits.
func (f *FarmStatus) collect(s scrape, fields walk) {
	states := map[string]int{"here": 0, "up": 0, "lost": 0, "left": 0, "refused": 0, "unheard": 0}
	for _, n := range f.Nodes {
		states[n.State]++
		if n.State == "up" || n.State == "lost" {
			put(s, "weir_farm_node_up", oneIf(n.State == "up"), n.Name)
			fields.into(reflect.ValueOf(n), nil, nil)
		}
	}
	for state, n := range states {
		put(s, "weir_farm_nodes", n, state)
	}
	c := f.Counters
	if c == nil {
		return
	}
	put(s, "weir_farm_counters_up", oneIf(c.State != "stalled"))
	total, buckets := uint64(0), map[float64]uint64{}
	for i, t := range c.Calltimes {
		if total += t.Count; i < len(c.Calltimes)-1 {
			buckets[t.UpTo] = total
		}
	}
	s.out <- prometheus.MustNewConstHistogram(s.metrics["weir_farm_counters_seconds"].desc, total, c.Sum, buckets)
}

//go:embed farmpage.html
var farmHTML string

// farmPage shows the nodes of a farm.
func farmPage() *page {
	return newPage(page{path: "farm", name: "Farm", role: access.View, show: showFarm,
		there: func(b Backend) bool { return b.Farm() != nil }}, farmHTML)
}

// A farmShown is the farm as the page shows it.
type farmShown struct {
	FarmStatus
	Up, Lost int
	Shadow   bool // all throttles of this node are in shadow
}

func showFarm(v *visit) (any, error) {
	f := v.backend.Farm()
	if f == nil {
		return nil, alone()
	}
	s := farmShown{FarmStatus: f.Status(), Shadow: len(v.backend.Throttles()) > 0}
	for _, n := range s.Nodes {
		switch n.State {
		case "here", "up":
			s.Up++
		case "lost":
			s.Lost++
		}
	}
	for _, t := range v.backend.Throttles() {
		s.Shadow = s.Shadow && t.Link.Shadow.Load()
	}
	return s, nil
}
