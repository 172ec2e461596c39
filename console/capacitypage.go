package console

import (
	"cmp"
	_ "embed"
	"math"
	"time"

	"weir"
	"weir/console/access"
)

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
