package flood

import (
	"math"
	"slices"
	"sync"
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
	Algorithm  string  `json:"algorithm"` // of weir's stamps
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
	// of all of them; those who were not served count with the patience of people
	MedianMS   float64 `json:"median_ms"`
	TurnsMS    float64 `json:"turns_ms,omitempty"` // what equal turns give, where that is the target
	Times      float64 `json:"times,omitempty"`    // the median, in proportion to that of the first part
	Attack     Figures `json:"attack"`             // the flood, the invented keys or the payer
	Stamps     *Stamps `json:"stamps,omitempty"`   // what the clients paid
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
		Algorithm: o.Algorithm.String(),
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

type group int

const (
	people  group = iota // with scripts: they pay when they are asked to
	without              // people without scripts: they wait when they are asked to
	flood                // it does neither
	groups
)

// A result is what became of a request for a page.
type result int

const (
	served  result = iota // the page came, and in time
	refused               // answered, but not with the page
	failed                // not answered, or too late
	unsent                // this machine could not send it
	results
)

// A tally counts the results of clients that came before its end. It is safe for concurrent use.
type tally struct {
	warmUp, end time.Duration // those who come in between are counted in the figures

	mu      sync.Mutex
	counts  [groups][results]int64
	took    [groups][]time.Duration // of those who were served
	seconds []second                // from the beginning of the warm-up
	paid    []payment
}

type second struct {
	came   [groups]int64 // in this second
	got    [groups]int64 // of those, how many were served at last
	served [groups]int64 // in this second, whenever they came
}

// A payment is what one stamp cost.
type payment struct {
	work  uint64
	took  time.Duration // here
	phone time.Duration // about so long on a phone
}

func newTally(o Options) *tally {
	end := o.WarmUp + o.For
	return &tally{warmUp: o.WarmUp, end: end, seconds: make([]second, (end+time.Second-1)/time.Second)}
}

// takes reports whether clients that come at a time are counted at all: in the figures, or in the seconds before.
func (t *tally) takes(at time.Duration) bool { return at < t.end }

// add counts a client that should have asked for a page at a time since the beginning, and its result so much later.
func (t *tally) add(g group, at, took time.Duration, r result) {
	if !t.takes(at) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.seconds[at/time.Second]
	s.came[g]++
	if r == served {
		s.got[g]++
		if i := int((at + took) / time.Second); i < len(t.seconds) {
			t.seconds[i].served[g]++
		}
	}
	if at < t.warmUp {
		return
	}
	t.counts[g][r]++
	if r == served {
		t.took[g] = append(t.took[g], took)
	}
}

// pay counts a stamp for a client that came at a time.
func (t *tally) pay(at time.Duration, p payment) {
	if at < t.warmUp || !t.takes(at) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paid = append(t.paid, p)
}

func (t *tally) of(g group) Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.figures(g)
}

// median returns the median time of a group. Clients that were not served count with patience.
func (t *tally) median(g group, patience time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.took[g])
	for _, r := range []result{refused, failed, unsent} {
		all = append(all, slices.Repeat([]time.Duration{patience}, int(t.counts[g][r]))...)
	}
	return quantile(all, 0.5)
}

// quantile returns the value below which the share q of all lies, or 0 when there are none. It sorts them.
func quantile[T int64 | uint64 | time.Duration](all []T, q float64) T {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
