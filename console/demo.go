package console

import (
	"net/http"
	"time"

	"weir/console/access"
)

// A Demo is what `weir demo` plays: scenes, each with people and a flood at a weir, and at its twin with the throttles
// in shadow. It is safe for concurrent use. Errors that are the caller's are *Error.
type Demo interface {
	Scenes() []DemoScene
	// Flood brings people and a flood to both sides of a scene, for a time. A flood in another scene ends.
	Flood(scene string) error
	// Pay makes the people of a scene pay for stamps, or wait instead.
	Pay(scene string, on bool) error
	// Stop ends the flood of a scene, or sends the people home where there is none.
	Stop(scene string) error
}

// What goes on in a scene.
const (
	DemoNobody   = ""
	DemoScripted = "script" // the terminal plays it
	DemoPeople   = "people" // a visitor has called people
	DemoFlooded  = "flood"  // and a flood
	DemoLeaving  = "leaving"
)

// A DemoScene is one scene of the demo.
type DemoScene struct {
	Name    string    `json:"name"`
	Story   string    `json:"story"`
	Rule    string    `json:"rule"`           // the limit
	Playing string    `json:"playing"`        // script, people, flood, leaving, or nothing
	Until   time.Time `json:"until,omitzero"` // when the flood goes by itself
	Pays    bool      `json:"pays"`           // people can be made to pay
	Paying  bool      `json:"paying"`         // they do
	Without DemoSide  `json:"without"`
	With    DemoSide  `json:"with"`
	Notes   []string  `json:"notes"` // what happened last, the latest at the end
}

// A DemoSide is a scene at one weir.
type DemoSide struct {
	Gate   string   `json:"gate"`
	At     int64    `json:"at"` // the last whole second
	People DemoRole `json:"people"`
	Flood  DemoRole `json:"flood"`
}

// DemoSeconds is how many seconds of the past a demo shows.
const DemoSeconds = 60

// A DemoRole is what became of the requests of people, or of the flood. The figures are since a scene, or a half of it,
// began; those in lists are of each of the last seconds, oldest first.
type DemoRole struct {
	Sent      int64   `json:"sent"`
	Served    int64   `json:"served"`
	Refused   int64   `json:"refused"` // by weir
	Failed    int64   `json:"failed"`  // by the service, which was full
	Held      int64   `json:"held"`    // messages that wait
	Median    float64 `json:"median_ms"`
	Passed    []int64 `json:"passed_each"`
	NotPassed []int64 `json:"not_passed_each"`
}

// DemoScenes are all scenes.
type DemoScenes struct {
	At     time.Time   `json:"at"`
	Scenes []DemoScene `json:"scenes"`
}

// A DemoWhich names a scene.
type DemoWhich struct {
	Scene string `json:"scene"` // as in quota
}

// DemoPay says whether the people of a scene pay for stamps.
type DemoPay struct {
	Scene string `json:"scene"`
	On    bool   `json:"on"` // they pay; otherwise they wait in line
}

var errNoDemo = NotFound("this weir is not a demo: weir demo starts one")

// demoOf returns the demo that a weir is a part of.
func (q *Request) demoOf() (Demo, error) {
	if d := q.backend.Demo(); d != nil {
		return d, nil
	}
	return nil, errNoDemo
}

// demoAct does something in a demo.
func demoAct(q *Request, act func(Demo) error) (None, error) {
	d, err := q.demoOf()
	if err == nil {
		err = act(d)
	}
	return None{}, err
}

var (
	DemoShowCall = define(Call{Method: http.MethodGet, Path: "/demo", Role: access.View,
		Commands: []string{"demo show"},
		Summary:  "Shows the scenes of a demo."},
		func(q *Request, _ *None) (DemoScenes, error) {
			d, err := q.demoOf()
			if err != nil {
				return DemoScenes{}, err
			}
			return DemoScenes{time.Now(), d.Scenes()}, nil
		})

	DemoFloodCall = define(Call{Method: http.MethodPost, Path: "/demo/flood", Role: access.Act,
		Commands: []string{"demo flood"}, Summary: "Brings people and a flood to a scene of a demo, for a time."},
		func(q *Request, in *DemoWhich) (None, error) {
			return demoAct(q, func(d Demo) error { return d.Flood(in.Scene) })
		}).saying(func(in *DemoWhich, _ None) string { return "The flood comes to " + in.Scene + "." })

	DemoPayCall = define(Call{Method: http.MethodPost, Path: "/demo/pay", Role: access.Act,
		Commands: []string{"demo pay"}, Summary: "Makes the people in a scene of a demo pay for stamps, or wait."},
		func(q *Request, in *DemoPay) (None, error) {
			return demoAct(q, func(d Demo) error { return d.Pay(in.Scene, in.On) })
		}).saying(func(in *DemoPay, _ None) string {
		if in.On {
			return "From now on people pay."
		}
		return "From now on people wait in line."
	})

	DemoStopCall = define(Call{Method: http.MethodPost, Path: "/demo/stop", Role: access.Act,
		Commands: []string{"demo stop"}, Summary: "Ends the flood in a scene of a demo, or sends the people home."},
		func(q *Request, in *DemoWhich) (None, error) {
			return demoAct(q, func(d Demo) error { return d.Stop(in.Scene) })
		}).saying(func(in *DemoWhich, _ None) string { return "They leave " + in.Scene + "." })
)
