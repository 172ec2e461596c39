package flood

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/throttle/stamp"
)

// A Kind says where a flood comes from.
type Kind string

// The kinds of floods.
const (
	Many Kind = "many" // from many sources, each of them slow: nobody can tell them from people by their rate
	Few  Kind = "few"  // from few sources, each of them fast
)

// Kinds lists all of them.
var Kinds = []Kind{Many, Few}

// A Scene is one comparison of the fronts.
type Scene string

// The scenes.
const (
	UnderFlood Scene = "flood" // what people get while a flood lasts, for each kind of flood
	AfterFlood Scene = "after" // what programs get that neither pay nor keep tickets, when a flood is over
	Keys       Scene = "keys"  // what a client of an API gets beside invented keys
	Payer      Scene = "payer" // what people get beside an attacker who pays
	// Turns is what people get beside addresses that have one request at a time each, and pay for every one.
	Turns   Scene = "turns"
	Shared  Scene = "shared"  // what people behind one address get beside such addresses
	Uploads Scene = "uploads" // what programs get while slow uploads of one address have all places
)

// Scenes lists all of them.
var Scenes = []Scene{UnderFlood, AfterFlood, Keys, Payer, Turns, Shared, Uploads}

// Options say what is run. The zero value runs everything with every front that is installed.
type Options struct {
	// For is how long visitors come whose fate is counted, in each round. Default 12s.
	For time.Duration
	// WarmUp is how long they come before. Default 8s: by then the load is steady.
	WarmUp time.Duration
	// Scenes to play. Default: all.
	Scenes []Scene
	// Kinds of floods, in the scene UnderFlood. Default: all.
	Kinds []Kind
	// Fronts to compare, by name; see Fronts. Default: all.
	Fronts []string
	// Algorithm is the puzzle that weir asks with. Default sha256-k.
	Algorithm stamp.Algorithm
	// Concurrent is how many requests the service works on at a time. Default 8. The other scenes have a service of
	// their own.
	Concurrent int
	// Work is how long it works on one. Default 20ms.
	Work time.Duration
	// Queue is how many requests the service lets wait; one more gets 503. Default 256.
	Queue int
	// People is how much people with scripts ask for, in proportion to the capacity. Default 0.2.
	People float64
	// Without is how much people without scripts ask for. Default 0.05.
	Without float64
	// Times is how much the flood asks for. Default 10.
	Times float64
	// Patience is how long people with scripts wait. Default 5s.
	Patience time.Duration
	// Patient is how long people without scripts wait: they are told that there is a line. Default 60s.
	Patient time.Duration
	// Reload is after what time people try again when an answer does not say. Default 2s.
	Reload time.Duration
	// Haste divides the times that belong to the scenes other than UnderFlood: how long a flood lasts, how long clients
	// wait. Default 1. With more, the figures mean little.
	Haste float64
	// Solver is a program, weir itself, that makes the stamps of people in a process of its own. Default: they are made
	// in this one, where they are in the way of everything else.
	Solver string
	// Watch is told now and then how far it is. May be nil.
	Watch func(Progress)
	// Version is what the weir that is run calls itself.
	Version string
}

// Progress says how far a run is.
type Progress struct {
	Round, Rounds int // the first is 1
	Front         string
	Scene         Scene
	Kind          Kind          // of the flood; empty in the other scenes
	Elapsed       time.Duration // in this round
	Expected      time.Duration // of this round, without those who have yet to lose patience
}

// Bounds on what one machine can play.
const (
	maxFor        = time.Hour
	maxConcurrent = 10_000
	maxRate       = 100_000 // requests a second of one group
	maxHaste      = 1000
	queueDefault  = 256
)

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.For = cmp.Or(o.For, 12*time.Second)
	o.WarmUp = cmp.Or(o.WarmUp, 8*time.Second)
	if len(o.Scenes) == 0 {
		o.Scenes = Scenes
	}
	if len(o.Kinds) == 0 {
		o.Kinds = Kinds
	}
	if len(o.Fronts) == 0 {
		o.Fronts = Fronts()
	}
	o.Algorithm = cmp.Or(o.Algorithm, stamp.SHA256K)
	o.Concurrent = cmp.Or(o.Concurrent, 8)
	o.Work = cmp.Or(o.Work, 20*time.Millisecond)
	o.Queue = cmp.Or(o.Queue, queueDefault)
	o.People = cmp.Or(o.People, 0.2)
	o.Without = cmp.Or(o.Without, 0.05)
	o.Times = cmp.Or(o.Times, 10)
	o.Patience = cmp.Or(o.Patience, 5*time.Second)
	o.Patient = cmp.Or(o.Patient, time.Minute)
	o.Reload = cmp.Or(o.Reload, 2*time.Second)
	o.Haste = cmp.Or(o.Haste, 1)
	if o.Watch == nil {
		o.Watch = func(Progress) {}
	}
	return o
}

// Validate returns every mistake in options that are filled in, as joined weir.FieldErrors with the names of the
// command's flags.
func (o Options) Validate() error {
	var all weir.Mistakes
	for _, d := range []struct {
		path string
		d    time.Duration
	}{{"for", o.For}, {"warm-up", o.WarmUp}, {"work", o.Work}, {"patience", o.Patience},
		{"patience-without", o.Patient}, {"reload", o.Reload}} {
		if d.d <= 0 || d.d > maxFor {
			all.Add(d.path, fmt.Sprintf("%s is out of bounds", d.d),
				fmt.Sprintf("more than nothing, at most %s", weir.Duration(maxFor)))
		}
	}
	if !slices.Contains(stamp.Algorithms[:], o.Algorithm) {
		all.Add("algorithm", fmt.Sprintf("there is no puzzle %q", o.Algorithm), "one of "+listed(stamp.Algorithms[:]))
	}
	if o.Concurrent < 1 || o.Concurrent > maxConcurrent {
		all.Add("concurrent", fmt.Sprintf("%d at a time cannot be played", o.Concurrent),
			fmt.Sprintf("1 to %d", maxConcurrent))
	}
	if o.Queue < 1 || o.Queue > maxConcurrent {
		all.Add("queue", fmt.Sprintf("%d in line cannot be played", o.Queue), fmt.Sprintf("1 to %d", maxConcurrent))
	}
	for _, share := range []struct {
		path string
		of   float64
	}{{"people", o.People}, {"without", o.Without}, {"times", o.Times}} {
		if rate := share.of * o.Capacity(); !(share.of > 0) || math.IsInf(rate, 0) || rate > maxRate {
			all.Add(share.path, fmt.Sprintf("%g times the capacity is %.0f requests a second", share.of, rate),
				fmt.Sprintf("more than nothing, at most %d requests a second", maxRate))
		}
	}
	if !(o.Haste >= 1 && o.Haste <= maxHaste) {
		all.Add("haste", fmt.Sprintf("%g times as fast cannot be played", o.Haste), fmt.Sprintf("1 to %d", maxHaste))
	}
	for _, s := range o.Scenes {
		if !slices.Contains(Scenes, s) {
			all.Add("scene", fmt.Sprintf("there is no scene %q", s), "some of "+listed(Scenes))
		}
	}
	for _, k := range o.Kinds {
		if !slices.Contains(Kinds, k) {
			all.Add("flood", fmt.Sprintf("there is no flood %q", k), "many, few or both")
		}
	}
	for _, name := range o.Fronts {
		if !slices.Contains(Fronts(), name) {
			all.Add("fronts", fmt.Sprintf("there is no %q to compare", name), "some of "+strings.Join(Fronts(), ", "))
		}
	}
	return all.Err()
}

// listed writes a list as people do.
func listed[T any](all []T) string {
	var names []string
	for _, one := range all {
		names = append(names, fmt.Sprint(one))
	}
	return strings.Join(names, ", ")
}

// Capacity is how many requests a second the service can serve.
func (o Options) Capacity() float64 { return float64(o.Concurrent) / o.Work.Seconds() }

func (o Options) rate(g group) float64 {
	return o.Capacity() * [groups]float64{people: o.People, without: o.Without, flood: o.Times}[g]
}

// What one source of a flood sends in a second.
const (
	slow = 0.4
	fast = 200.0
)

func (o Options) sources(k Kind) int {
	each := slow
	if k == Few {
		each = fast
	}
	return max(int(o.rate(flood)/each), 2)
}
