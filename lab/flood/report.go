package flood

import (
	"math"
	"time"
)

// A Report is the result of a run.
type Report struct {
	Machine  string    `json:"machine"`
	Began    time.Time `json:"began"`
	Settings Settings  `json:"settings"`
	Floods   []Flood   `json:"floods"`
	Scenes   []Played  `json:"scenes"`   // the other ones
	LeftOut  []LeftOut `json:"left_out"` // fronts that could not be compared
}

// Settings are the options of a run. Rates are requests a second.
type Settings struct {
	Seconds    float64 `json:"seconds"` // that were counted
	WarmUp     float64 `json:"warm_up_seconds"`
	Concurrent int     `json:"concurrent"`
	WorkMS     float64 `json:"work_ms"`
	Queue      int     `json:"queue"`
	Capacity   float64 `json:"capacity"`
	People     float64 `json:"people"`
	Without    float64 `json:"without"`
	Flood      float64 `json:"flood"`
	PatienceMS float64 `json:"patience_ms"`         // of people with scripts
	PatientMS  float64 `json:"without_patience_ms"` // of people without
	ReloadMS   float64 `json:"reload_ms"`
}

// A LeftOut is a front that could not be compared.
type LeftOut struct {
	Front string `json:"front"`
	Why   string `json:"why"`
}

// A Flood is one kind of flood, with every front in turn.
type Flood struct {
	Kind    Kind    `json:"kind"`
	Sources int     `json:"sources"`
	Rounds  []Round `json:"rounds"`
}

// A Round is the result with one front.
type Round struct {
	Front   string   `json:"front"`
	Title   string   `json:"title"`
	Version string   `json:"version,omitempty"`
	People  Figures  `json:"people"`
	Without Figures  `json:"without"`
	Flood   Figures  `json:"flood"`
	Use     float64  `json:"use"`    // of the capacity of the service
	Others  float64  `json:"others"` // which share of the machine others had meanwhile
	Stamps  *Stamps  `json:"stamps,omitempty"`
	Target  Target   `json:"target"`
	Seconds []Second `json:"seconds"`
	Gauges  []Gauge  `json:"gauges,omitempty"` // how the front saw it
}

// A Played is a scene with every front in turn.
type Played struct {
	Scene  Scene        `json:"scene"`
	Rounds []SceneRound `json:"rounds"`
}

// A SceneRound is the result of a scene with one front.
type SceneRound struct {
	Front   string  `json:"front"`
	Title   string  `json:"title"`
	Version string  `json:"version,omitempty"`
	Parts   []Part  `json:"parts"`
	Others  float64 `json:"others"` // which share of the machine others had meanwhile
	Met     bool    `json:"met"`    // the target was
}

// A Part is one run of a scene. Most scenes have one.
type Part struct {
	Beside  string  `json:"beside"`  // who else was there
	Clients Figures `json:"clients"` // that the scene is about
	// of all of them; whoever was not served counts with the patience of people
	MedianMS   float64 `json:"median_ms"`
	Times      float64 `json:"times,omitempty"`  // the median, in proportion to that of the first part
	Attack     Figures `json:"attack"`           // the flood, the invented keys or the payer
	Stamps     *Stamps `json:"stamps,omitempty"` // what the clients paid
	AttackPaid *Stamps `json:"attack_stamps,omitempty"`
}

// Figures are the results of a group. Offered is the sum of the next four. The times are of those who were served, from
// when they should have come.
type Figures struct {
	Offered int64   `json:"offered"`
	Served  int64   `json:"served"`
	Refused int64   `json:"refused"` // answered, but never with the page
	Failed  int64   `json:"failed"`  // never answered, or too late
	Unsent  int64   `json:"unsent"`  // this machine could not send it
	Share   float64 `json:"share"`   // of those offered, who were served
	P50     float64 `json:"p50_ms"`
	P95     float64 `json:"p95_ms"`
}

// Stamps are what people paid.
type Stamps struct {
	Paid    int     `json:"paid"`
	Work    uint64  `json:"work"`      // of the one in the middle, in operations
	Most    uint64  `json:"most_work"` // of the dearest
	HereMS  float64 `json:"here_ms"`   // how long the one in the middle took here
	PhoneMS float64 `json:"phone_ms"`  // and would take on a phone
}

// A Target is whether people got what they should under a flood.
type Target struct {
	People  bool `json:"people"`
	Without bool `json:"without"`
}

// Met reports whether all of it was.
func (t Target) Met() bool { return t.People && t.Without }

// What people should get.
const (
	peopleTarget  = 0.95 // of them
	withoutTarget = 0.10 // of the capacity, or all of them
)

// A Second is the result of one second, which began so many seconds after the warm-up.
type Second struct {
	At      int     `json:"at"`
	People  Arrived `json:"people"`
	Without Arrived `json:"without"`
	Flood   Arrived `json:"flood"`
}

// Arrived is the result of a second for a group.
type Arrived struct {
	Came   int64 `json:"came"`   // in this second
	Got    int64 `json:"got"`    // of those, how many were served at last
	Served int64 `json:"served"` // in this second, whenever they came
}

func settingsOf(o Options) Settings {
	return Settings{
		Seconds: o.For.Seconds(), WarmUp: o.WarmUp.Seconds(), Concurrent: o.Concurrent, WorkMS: milliseconds(o.Work),
		Queue:    o.Queue,
		Capacity: o.Capacity(), People: o.rate(people), Without: o.rate(without), Flood: o.rate(flood),
		PatienceMS: milliseconds(o.Patience), PatientMS: milliseconds(o.Patient), ReloadMS: milliseconds(o.Reload),
	}
}

func (t *tally) report(o Options) Round {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Round{People: t.figures(people), Without: t.figures(without), Flood: t.figures(flood),
		Stamps: stampsOf(t.paid)}
	r.Target = Target{
		People: r.People.Offered > 0 && r.People.Share >= peopleTarget,
		Without: r.Without.Offered > 0 && (r.Without.Served == r.Without.Offered ||
			float64(r.Without.Served) >= withoutTarget*o.Capacity()*o.For.Seconds()),
	}
	// A second in which the window begins or ends would be only a part of one.
	warm := int(math.Round(o.WarmUp.Seconds()))
	for i, s := range t.seconds {
		of := func(g group) Arrived { return Arrived{s.came[g], s.got[g], s.served[g]} }
		r.Seconds = append(r.Seconds, Second{At: i - warm, People: of(people), Without: of(without), Flood: of(flood)})
	}
	return r
}

func (t *tally) figures(g group) Figures {
	n := &t.counts[g]
	f := Figures{Served: n[served], Refused: n[refused], Failed: n[failed], Unsent: n[unsent],
		P50: milliseconds(quantile(t.took[g], 0.5)), P95: milliseconds(quantile(t.took[g], 0.95))}
	f.Offered = f.Served + f.Refused + f.Failed + f.Unsent
	if f.Offered > 0 {
		f.Share = float64(f.Served) / float64(f.Offered)
	}
	return f
}

// stampsOf sums up payments; nil when nobody paid.
func stampsOf(all []payment) *Stamps {
	if len(all) == 0 {
		return nil
	}
	var work []uint64
	var here, phone []time.Duration
	for _, p := range all {
		work, here, phone = append(work, p.work), append(here, p.took), append(phone, p.phone)
	}
	return &Stamps{Paid: len(all), Work: quantile(work, 0.5), Most: quantile(work, 1),
		HereMS: milliseconds(quantile(here, 0.5)), PhoneMS: milliseconds(quantile(phone, 0.5))}
}

// milliseconds keeps two decimals.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
