package console

import (
	"cmp"
	_ "embed"
	"math"
	"net/http"
	"time"

	"weir"
	"weir/admission"
	"weir/console/access"
	"weir/throttle/stamp"
)

// A CapacityQuery says what of the past is wanted. The zero value asks for the last five minutes.
type CapacityQuery struct {
	Window string `json:"window,omitempty"` // 5m, in steps of a second, or 1h, in steps of ten seconds
	Top    int    `json:"top,omitempty"`    // how many payers of each gate, at most MaxTop; 0: 10
}

// A CapacityReport says how full the gates with a limited capacity are, and what a place costs.
type CapacityReport struct {
	At        time.Time      `json:"at"`
	Gates     []CapacityGate `json:"gates"`
	ShadowAll *ShadowAll     `json:"shadow_all,omitempty"` // the emergency switch is on
}

// A CapacityGate is a gate whose upstream has a limited capacity, or a route with one of its own.
type CapacityGate struct {
	Gate     string   `json:"gate"`    // as configured
	Address  string   `json:"address"` // as bound
	Upstream string   `json:"upstream,omitempty"`
	Capacity Capacity `json:"capacity"`
	Stamps   *StampAt `json:"stamps,omitempty"` // left out where nobody asks for stamps
	Past     Series   `json:"past"`             // with the measures of gates with a capacity
}

// A StampAt is the throttle that asks for stamps at a gate, and who pays. Its counters and payers are of all gates that
// it judges at.
type StampAt struct {
	Throttle string `json:"throttle"`
	Shadow   bool   `json:"shadow"`
	Asks     uint64 `json:"asks"` // what a stamp costs here now, in operations; 0 while none is asked for
	// AsksSeconds is how long a phone works on that.
	AsksSeconds float64 `json:"asks_seconds"`
	Stamp
	Payers []Payer `json:"payers"` // who paid most often lately, the most first
}

// lanesMeasures are the columns of a CapacityGate.
var lanesMeasures = []Measure{Load, Waiting, InLine, Stamped, Pooled, Crowded, Work, WorkSeconds}

var CapacityCall = define(http.MethodGet, "/capacity", access.View, "capacity",
	"Shows how full gates with a limited capacity are, what a stamp costs, now and lately, and who pays.",
	func(q *Request, in *CapacityQuery) (CapacityReport, error) {
		look := OverviewQuery{Window: in.Window, Top: in.Top, Last: 1}
		if err := look.Validate(); err != nil {
			return CapacityReport{}, err
		}
		return capacityOf(q.backend.Status(), q.backend.Overview(look)), nil
	})

// capacityOf takes from two looks at weir what is about capacities.
func capacityOf(s Status, o Overview) CapacityReport {
	r := CapacityReport{At: o.At, Gates: []CapacityGate{}, ShadowAll: s.ShadowAll}
	stamps := map[string]*Stamp{}
	shadow := map[string]bool{}
	for _, t := range s.Throttles {
		stamps[t.Throttle], shadow[t.Throttle] = t.Stamp, t.Shadow
	}
	payers := map[string][]Payer{}
	for i := range o.Throttles {
		payers[o.Throttles[i].Name] = o.Throttles[i].Payers
	}
	past := map[string]*RouteWatch{}
	for _, w := range o.Gates {
		past[w.Address] = &RouteWatch{Series: w.Series, Address: w.Address, Stamps: w.Stamps}
	}
	for i := range o.Routes {
		past[o.Routes[i].Address] = &o.Routes[i]
	}
	for _, g := range WithRoutes(s.Gates) {
		if g.Capacity == nil {
			continue
		}
		c := CapacityGate{Gate: g.Gate, Address: g.Address, Upstream: g.Upstream, Capacity: *g.Capacity,
			Past: Series{Name: g.Gate, Kind: g.Kind, At: []int64{}, Columns: map[Measure]Values{}}}
		if w := past[g.Address]; w != nil { // else a reload came between the two looks
			c.Past = w.Series
			c.Past.Columns = map[Measure]Values{}
			for _, m := range lanesMeasures {
				c.Past.Columns[m] = w.Columns[m]
			}
			if st := stamps[w.Stamps]; st != nil {
				c.Stamps = &StampAt{Throttle: w.Stamps, Shadow: shadow[w.Stamps], Asks: st.Work[g.Gate],
					AsksSeconds: known(w.Last(WorkSeconds)), Stamp: *st, Payers: payers[w.Stamps]}
				if c.Stamps.Payers == nil {
					c.Stamps.Payers = []Payer{}
				}
			}
		}
		r.Gates = append(r.Gates, c)
	}
	return r
}

//go:embed capacitypage.html
var capacityHTML string

//go:embed emergency.html
var emergencyHTML string

// capacityPage shows how full the gates with a limited capacity are, what a stamp costs, and who pays.
func capacityPage() *page {
	return newPage(page{path: "capacity", name: "Capacity", role: access.View, live: true, plots: true,
		show: showCapacity}, capacityHTML, plotHTML, emergencyHTML)
}

// maxPlotted is how many capacities have plots on a page. Of the others it shows the figures.
const maxPlotted = 50

// A capacityShown is the page Capacity.
type capacityShown struct {
	CapacityReport
	Hour  bool
	Rooms []roomShown
}

// A roomShown is a gate on the page.
type roomShown struct {
	CapacityGate
	Load, Price string
	Wait        weir.Duration            // of those who paid, for their turns
	Longest     map[string]weir.Duration // that a request waits now, by lane
	Plots       []*gatePlot
	Refused     []refusedFor
	Paid        []paidShare
	Requests    uint64 // what Paid has shares of
}

// refusedFor is how many requests the lanes refused for one reason, since the start.
type refusedFor struct {
	Why string
	N   uint64
}

// paidShare is how many requests went on, or did not, for one reason, since the start.
type paidShare struct {
	What  string
	N     uint64
	Share float64
	Text  string
}

func showCapacity(v *visit) (any, error) {
	look := OverviewQuery{Window: v.query.Get("window"), Last: 1}
	if err := look.Validate(); err != nil {
		return nil, err
	}
	report := capacityOf(v.status(), v.backend.Overview(look))
	shown := &capacityShown{CapacityReport: report, Hour: look.Window == OneHour}
	shown.Rooms = roomsOf(shown.Gates, spanOf(shown.Hour))
	return shown, nil
}

func roomsOf(gates []CapacityGate, sp span) (all []roomShown) {
	for i, g := range gates {
		room := roomOf(g, sp)
		if i >= maxPlotted {
			room.Plots = nil
		}
		all = append(all, room)
	}
	return all
}

func roomOf(g CapacityGate, sp span) roomShown {
	c := &g.Capacity
	r := roomShown{CapacityGate: g, Load: percent(c.Load), Wait: inMillis(c.Delay), Longest: map[string]weir.Duration{}}
	for lane, wait := range c.Longest {
		r.Longest[lane] = inMillis(wait)
	}
	h := GateHistory{Gate: g.Gate, Address: g.Address, Samples: g.Past.Samples()}
	name := cmp.Or(g.Address, g.Gate)
	r.Plots = append(r.Plots, sp.loadPlot(h, name))
	if s := g.Stamps; s != nil {
		h.Stamps = s.Throttle
		r.Plots = append(r.Plots, sp.workPlot(h, name))
		r.Price = asked(s.Asks, time.Duration(s.AsksSeconds*float64(time.Second)))
		r.Paid, r.Requests = sharesOf(&s.Stamp)
	}
	r.Plots = append(r.Plots, sp.roomPlot(h, name), sp.letInPlot(h, name), sp.awayPlot(h, name))
	h.orNothing(name, r.Plots)
	for _, why := range []struct{ key, text string }{{"full", "found no room to wait"},
		{"too-many", "were too many of one client"}, {"expired", "waited too long"},
		{"no-show", "were called and did not come"},
		{"lost", "lost their place: too slow, or more than their part"}} {
		if n := c.Refused[why.key]; n > 0 {
			r.Refused = append(r.Refused, refusedFor{why.text, n})
		}
	}
	return r
}

// inMillis rounds a number of milliseconds.
func inMillis(ms float64) weir.Duration {
	return weir.Duration(time.Duration(math.Round(ms)) * time.Millisecond)
}

// sharesOf divides the requests that came while stamps were asked for.
func sharesOf(s *Stamp) (all []paidShare, sum uint64) {
	all = []paidShare{{What: "paid, and went first", N: s.Paid}, {What: "called from the waiting room", N: s.Called},
		{What: "taken by the pool at once", N: s.Held}, {What: "never asked (never_ask)", N: s.Free},
		{What: "asked to pay", N: s.Challenged}, {What: "refused: never pays", N: s.NotPaying},
		{What: "refused: forged stamp", N: s.Forged}, {What: "refused: stamp used before", N: s.Replayed}}
	for _, p := range all {
		sum += p.N
	}
	for i := range all {
		if sum > 0 {
			all[i].Share = float64(all[i].N) / float64(sum)
		}
		if all[i].Text = percent(all[i].Share); all[i].N > 0 && all[i].Share < 0.005 {
			all[i].Text = "under 1%"
		}
	}
	return all, sum
}

// A Stamp is the state of a throttle that asks for stamps.
type Stamp struct{ stamp.Stats }

// Most is the highest work that any gate asks for.
func (s *Stamp) Most() (most uint64) {
	for _, w := range s.Work {
		most = max(most, w)
	}
	return most
}

// Places is how much this node lets through at once.
func (c *Capacity) Places() int { return cmp.Or(c.Here, c.Concurrent) }

// A Capacity is the state of the lanes in front of an upstream.
type Capacity struct {
	Concurrent int     `json:"concurrent" metric:"weir_capacity_limit" help:"Requests that the upstream can work on at once, as configured or learnt."`
	Here       int     `json:"here,omitempty"` // in a farm: how much of that is this node's
	InUse      int     `json:"in_use" metric:"weir_capacity_in_use" help:"Requests that the upstream works on now."`
	Load       float64 `json:"load" metric:"weir_capacity_load_ratio" help:"Demand on the upstream, in proportion to what it can do."`
	// The longest that a client waited for its turn that paid, lately.
	Delay float64 `json:"delay_ms" metric:"weir_capacity_delay_seconds" per:"1000" help:"How long requests with a stamp wait."`
	// That a request waits now, by lane.
	Longest map[string]float64 `json:"longest_ms"`
	// Who has most places.
	Holders []admission.Holder `json:"holders"`
	// Waiting, paid.
	Stamped int `json:"stamped" metric:"weir_capacity_waiting" label:"lane=stamped" help:"Requests that wait, by lane; line counts tickets of the waiting room."`
	// Waiting in the general pool, as held requests.
	Pool int `json:"pool" metric:"weir_capacity_waiting" label:"lane=pool"`
	// Waiting in the general pool, with tickets.
	InLine     int               `json:"in_line" metric:"weir_capacity_waiting" label:"lane=line"`
	LetIn      map[string]uint64 `json:"let_in" metric:"weir_capacity_admitted_total" label:"lane" help:"Requests that were given a place at the upstream, by lane."`
	Refused    map[string]uint64 `json:"refused" metric:"weir_capacity_refused_total" label:"reason" help:"Requests that a lane did not take, by reason."`
	TurnedAway uint64            `json:"turned_away" metric:"weir_capacity_turned_away_total" help:"Requests that were challenged or refused before they reached the lanes."`
	Shadow     bool              `json:"shadow"`
}
