package simulate

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"weir"
	"weir/admission"
	"weir/throttle/stamp"
)

// Bounds of what is played.
const (
	MaxFloodRate    = 1_000_000  // of one crowd, a second
	MaxFloodTime    = time.Hour  // in all
	MaxFloodVisits  = 10_000_000 // of all crowds, in all
	MaxFloodHashes  = 1e15       // a second
	MaxFloodService = time.Minute
	MaxFloodSources = 1_000_000
	MaxFloodLine    = 1_000_000 // of the plain queue
)

// desktopPhones is the default speed of a desktop browser, in phones. Package stamp knows the speed of a phone.
const desktopPhones = 3

// FloodOptions are a service, people who want something of it, and a flood. Shares that are left out are none.
type FloodOptions struct {
	// How many requests the service works on at once, whatever weir is told of it.
	Concurrent int
	// How long it works on one, on average. It varies (exponentially). Default 100ms.
	Service time.Duration
	// What weir is told of the service, as under capacity in a configuration. Default: how many at once.
	Lanes admission.Options
	// How stamps are asked for, as in a configuration.
	Stamps stamp.Options

	// How many people come in a second. Each wants one page, and comes again when refused until their patience
	// ends.
	People float64
	// The share of them whose browser runs no scripts: they cannot pay, and wait in the waiting room.
	Without weir.Share
	// The share of the others who are on a phone.
	Phones weir.Share
	// Hashes (or whatever the algorithm counts) a second of a phone and of another computer, in a browser. Default:
	// what package stamp takes a phone to do, and three times as much.
	Phone, Desktop float64
	// How long people wait in all, and those without scripts, who are told that there is a line. Default 10s and 1m.
	Patience, Patient time.Duration

	// How many requests a second the flood sends that pays nothing.
	Flood float64
	// How many requests a second the flood sends that pays as far as it can, and how many hashes a second it has for
	// it. Default, where it has any: as many as the flood that does not pay, or ten times what the service can do.
	Paying float64
	Hashes float64
	// How many addresses a flood comes from. Default 10000.
	Sources int

	// How long it goes on in all, and from and until when the flood comes. Default 2m, 10s and half of the time that is
	// left.
	For, From, Until time.Duration

	// Without weir: how many requests wait for the service, and for how long. Default 1000 and 30s.
	Queue   int
	Timeout time.Duration

	// Another seed makes other chances. The same one always gives the same figures.
	Seed uint64
	// Watch is told now and then how far it is, from 0 to 1. May be nil.
	Watch func(share float64)
}

// Capacity is how many requests a second the service can do.
func (o FloodOptions) Capacity() float64 { return float64(o.Concurrent) / o.Service.Seconds() }

// WithDefaults returns the options with everything filled in that was left out.
func (o FloodOptions) WithDefaults() FloodOptions {
	o.Service = cmp.Or(o.Service, 100*time.Millisecond)
	if !o.Lanes.Learn {
		o.Lanes.Concurrent = cmp.Or(o.Lanes.Concurrent, o.Concurrent)
	}
	if o.Stamps.Classic && o.Lanes.Pool == 0 {
		o.Lanes.Strict = true // as the document has it
	}
	o.Lanes, o.Stamps = o.Lanes.WithDefaults(), o.Stamps.WithDefaults()
	o.Phone = cmp.Or(o.Phone, phoneSpeed(o.Stamps.Algorithm))
	o.Desktop = cmp.Or(o.Desktop, desktopPhones*phoneSpeed(o.Stamps.Algorithm))
	o.Patience = cmp.Or(o.Patience, 10*time.Second)
	o.Patient = cmp.Or(o.Patient, time.Minute)
	if o.Hashes > 0 && o.Paying == 0 {
		o.Paying = cmp.Or(o.Flood, 10*o.Capacity())
	}
	o.Sources = cmp.Or(o.Sources, 10_000)
	o.For = cmp.Or(o.For, 2*time.Minute)
	o.From = cmp.Or(o.From, min(10*time.Second, o.For/10))
	o.Until = cmp.Or(o.Until, o.From+(o.For-o.From)/2)
	o.Queue = cmp.Or(o.Queue, 1000)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors with the names of the command's flags.
func (o FloodOptions) Validate() error {
	var all weir.Mistakes
	if o.Concurrent < 1 || o.Concurrent > admission.MaxConcurrent {
		all.Add("concurrent", fmt.Sprintf("a service that works on %d requests at once cannot be played", o.Concurrent),
			fmt.Sprintf("1 to %d", admission.MaxConcurrent))
		return all.Err() // the rest follows from it
	}
	o = o.WithDefaults()
	lasts := func(path string, d, most time.Duration) {
		if d <= 0 || d > most {
			all.Add(path, fmt.Sprintf("%s is out of bounds", weir.Duration(d)),
				fmt.Sprintf("more than nothing, at most %s", weir.Duration(most)))
		}
	}
	rate := func(path string, n, most float64) {
		if !(n >= 0 && n <= most) { // not a number is wrong, too
			all.Add(path, fmt.Sprintf("%g a second cannot be played", n), fmt.Sprintf("up to %g", most))
		}
	}
	lasts("service", o.Service, MaxFloodService)
	lasts("patience", o.Patience, MaxFloodTime)
	lasts("patience-without", o.Patient, MaxFloodTime)
	lasts("timeout", o.Timeout, MaxFloodTime)
	lasts("for", o.For, MaxFloodTime)
	rate("people", o.People, MaxFloodRate)
	rate("flood", o.Flood, MaxFloodRate)
	rate("paying", o.Paying, MaxFloodRate)
	rate("hashes", o.Hashes, MaxFloodHashes)
	rate("phone", o.Phone, MaxFloodHashes)
	rate("desktop", o.Desktop, MaxFloodHashes)
	if o.Paying > 0 && o.Hashes == 0 {
		all.Add("hashes", "the flood that pays cannot pay anything",
			"say how many hashes a second it has: 8M is a core, 15.6G a large graphics card")
	}
	for _, share := range []struct {
		path string
		of   weir.Share
	}{{"without", o.Without}, {"phones", o.Phones}} {
		if !(share.of >= 0 && share.of <= 1) {
			all.Add(share.path, fmt.Sprintf("%s is not a share of people", share.of), "0% to 100%")
		}
	}
	if o.Until <= o.From || o.From < 0 || o.Until > o.For {
		all.Add("until", fmt.Sprintf("a flood from %s until %s is not within %s", weir.Duration(o.From),
			weir.Duration(o.Until), weir.Duration(o.For)), "from is before until, and until not after the end")
	}
	all.Count("sources", o.Sources, MaxFloodSources)
	all.Count("queue", o.Queue, MaxFloodLine)
	all.Under("capacity", o.Lanes.Validate())
	all.Under("stamp", o.Stamps.Validate())
	if o.People == 0 && o.Flood == 0 && o.Paying == 0 {
		all.Add("people", "nobody comes", "write 20/s")
	}
	if visits := o.visits(); len(all) == 0 && visits > MaxFloodVisits {
		all.Add("for", fmt.Sprintf("%.0f visits are more than are played", visits),
			fmt.Sprintf("at most %d: a shorter time, or fewer a second", int64(MaxFloodVisits)))
	}
	return all.Err()
}

// visits is about how many clients come in all.
func (o FloodOptions) visits() float64 {
	return o.People*o.For.Seconds() + (o.Flood+o.Paying)*(o.Until-o.From).Seconds()
}

// A FloodStudy is what all clients got of a service while it was flooded.
type FloodStudy struct {
	Capacity   float64      `json:"capacity"` // requests a second
	Concurrent int          `json:"concurrent"`
	Service    float64      `json:"service_s"`
	For        float64      `json:"for_s"`
	From       float64      `json:"from_s"` // of the flood
	Until      float64      `json:"until_s"`
	Crowds     []FloodCrowd `json:"crowds"`  // with weir
	Without    []FloodCrowd `json:"without"` // with nothing but a queue
	Peak       stamp.Work   `json:"-"`       // the most that was asked
	PeakWork   uint64       `json:"peak_work"`
	PeakPhone  float64      `json:"peak_phone_s"` // … in seconds of a phone
	Asked      float64      `json:"asked_s"`      // for how long something was asked
	// how long after the flood nothing was asked any more; -1: it still was at the end, or nothing ever was
	Dormant float64      `json:"dormant_s"`
	Points  []FloodPoint `json:"points"` // second by second
}

// A FloodCrowd is the result of all clients of one kind who came during the flood, or ever where there is no flood.
type FloodCrowd struct {
	Crowd   string  `json:"crowd"`
	Offered int     `json:"offered"`
	Served  int     `json:"served"`
	Share   float64 `json:"share"` // of those who came
	// of what the service did in that time, for these and those who came before
	Capacity float64 `json:"capacity_share"`
	// of those who were served, until the service began to work for them: with the time for stamps
	MeanWait float64 `json:"mean_wait_s"`
	P95Wait  float64 `json:"p95_wait_s"`
	Refused  int     `json:"refused"` // in the end
	Left     int     `json:"left"`    // lost patience
	Stamps   int     `json:"stamps"`  // that they made
}

// A FloodPoint is the state at the end of a second.
type FloodPoint struct {
	Second  int            `json:"second"`
	Load    float64        `json:"load"`
	Delay   float64        `json:"delay_s"` // of the stamped lane
	Work    uint64         `json:"work"`
	Phone   float64        `json:"phone_s"` // for a stamp
	Desktop float64        `json:"desktop_s"`
	Stamped int            `json:"stamped"` // held in that lane
	Pool    int            `json:"pool"`
	InLine  int            `json:"in_line"` // in the waiting room
	Served  map[string]int `json:"served"`  // in that second, by crowd
	Without map[string]int `json:"without"` // … with nothing but a queue
}

// The crowds.
const (
	CrowdDesktop = "desktop"
	CrowdPhone   = "phone"
	CrowdWithout = "no-scripts"
	CrowdFlood   = "flood"
	CrowdPaying  = "paying-flood"
)

// Flood plays people and a flood in front of a service, with weir and with nothing but a queue between them, in
// simulated time. The lanes, the waiting room and the price of stamps are weir's own. No puzzles are solved: making a
// stamp takes as long as its work says, with the luck that the algorithm leaves.
func Flood(o FloodOptions) (*FloodStudy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	study := &FloodStudy{Capacity: o.Capacity(), Concurrent: o.Concurrent, Service: o.Service.Seconds(),
		For: o.For.Seconds(), From: o.From.Seconds(), Until: o.Until.Seconds(), Dormant: -1}
	with, err := newFloodGate(o)
	if err != nil {
		return nil, err
	}
	watch := func(share float64) {
		if o.Watch != nil {
			o.Watch(share)
		}
	}
	with.run(func(second int, served map[string]int) {
		watch(0.9 * float64(second) / o.For.Seconds())
		p := with.point(second)
		p.Served = served
		study.add(p)
	})
	without := newFloodQueue(o)
	without.run(func(second int, served map[string]int) {
		watch(0.9 + 0.1*float64(second)/o.For.Seconds()) // a queue is quickly played
		study.Points[second-1].Without = served
	})
	study.Crowds, study.Without = with.crowds(), without.crowds()
	study.Peak = with.peak
	study.PeakWork, study.PeakPhone = uint64(with.peak), secondsFor(with.peak, o.Stamps.Algorithm, o.Phone)
	return study, nil
}

// add adds a point, and notes how long something was asked.
func (s *FloodStudy) add(p FloodPoint) {
	s.Points = append(s.Points, p)
	at := float64(p.Second)
	switch {
	case p.Work > 0:
		s.Asked++
		s.Dormant = -1
	case at >= s.Until && s.Asked > 0 && s.Dormant < 0:
		s.Dormant = at - s.Until
	}
}

// secondsFor is how long a client with so many operations a second works on a stamp, on average.
func secondsFor(w stamp.Work, a stamp.Algorithm, speed float64) float64 {
	if w == 0 || speed <= 0 {
		return 0
	}
	return w.Time(a).Seconds() * phoneSpeed(a) / speed
}

// phoneSpeed is how many operations a second a phone does.
func phoneSpeed(a stamp.Algorithm) float64 {
	const work stamp.Work = 1 << 20
	operations := float64(work)
	if a == stamp.DLogClassic { // it counts possibilities
		operations = 1.5 * math.Sqrt(operations/2)
	}
	return math.Round(operations / work.Time(a).Seconds())
}
