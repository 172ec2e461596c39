package console

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"weir/console/access"
	"weir/internal/plot"
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
	DemoShowCall = define(http.MethodGet, "/demo", access.View, "demo show", "Shows the scenes of a demo.",
		func(q *Request, _ *None) (DemoScenes, error) {
			d, err := q.demoOf()
			if err != nil {
				return DemoScenes{}, err
			}
			return DemoScenes{time.Now(), d.Scenes()}, nil
		})

	DemoFloodCall = define(http.MethodPost, "/demo/flood", access.Act, "demo flood",
		"Brings people and a flood to a scene of a demo, for a time.",
		func(q *Request, in *DemoWhich) (None, error) {
			return demoAct(q, func(d Demo) error { return d.Flood(in.Scene) })
		}).saying(func(in *DemoWhich, _ None) string { return "The flood comes to " + in.Scene + "." })

	DemoPayCall = define(http.MethodPost, "/demo/pay", access.Act, "demo pay",
		"Makes the people in a scene of a demo pay for stamps, or wait.",
		func(q *Request, in *DemoPay) (None, error) {
			return demoAct(q, func(d Demo) error { return d.Pay(in.Scene, in.On) })
		}).saying(func(in *DemoPay, _ None) string {
		if in.On {
			return "From now on people pay."
		}
		return "From now on people wait in line."
	})

	DemoStopCall = define(http.MethodPost, "/demo/stop", access.Act, "demo stop",
		"Ends the flood in a scene of a demo, or sends the people home.",
		func(q *Request, in *DemoWhich) (None, error) {
			return demoAct(q, func(d Demo) error { return d.Stop(in.Scene) })
		}).saying(func(in *DemoWhich, _ None) string { return "They leave " + in.Scene + "." })
)

//go:embed demopage.html
var demoHTML string

const (
	// EnterPath is where the address of a demo leads to. Its parameter key is the password of the operator DemoVisitor,
	// so that nobody has to type one.
	EnterPath = "/enter"
	// DemoVisitor is the operator that a demo makes for those who come by its address.
	DemoVisitor = "visitor"
)

// enter lets in who comes by the address of a demo. A weir that is no demo has no such address.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	operators := s.backend.Access()
	if s.backend.Demo() == nil || operators == nil {
		s.page(w, r)
		return
	}
	in, err := operators.LogIn(r.Context(), access.Attempt{Name: DemoVisitor, Password: r.URL.Query().Get("key"),
		Source: s.guard.Load().source(r), Browser: s.cookieOf(r, browserCookie)})
	if errors.Is(err, access.ErrWrong) {
		s.countLogIn("wrong")
		s.fail(w, &layout{Title: "Not let in", Root: "./"}, &Error{http.StatusForbidden,
			"This is not the address that the demo has printed, or it is that of another one. Copy all of it."})
		return
	}
	if err != nil {
		s.failLogIn(w, r, logInPage{}, err)
		return
	}
	s.countLogIn("ok")
	s.welcome(w, r, in)
	seeOther(w, "./demo") // and the key is no longer in the address
}

// demoPage shows the scenes of a demo, side by side with and without the throttle, and lets visitors flood them.
func demoPage() *page {
	return newPage(page{path: "demo", name: "Demo", role: access.View, live: true, plots: true, show: showDemo,
		there: func(b Backend) bool { return b.Demo() != nil }}, demoHTML, plotHTML)
}

// A demoView is a scene on the page.
type demoView struct {
	DemoScene
	Seen  bool // somebody was there in the last minute
	Sides []demoSide
}

type demoSide struct {
	Title, Gate   string
	With          bool
	People, Flood string // what became of them, in a sentence
	Bad           bool   // more than one of twenty people is not served
	Plots         []*gatePlot
}

// Begins reports whether the flood can be called.
func (v *demoView) Begins() bool { return v.Playing == DemoNobody || v.Playing == DemoPeople }

// Ends reports whether somebody can be sent away.
func (v *demoView) Ends() bool { return v.Playing == DemoPeople || v.Playing == DemoFlooded }

func showDemo(v *visit) (any, error) {
	scenes, err := DemoShowCall.on(v.Request, None{})
	if err != nil {
		return nil, err
	}
	shown := struct {
		At     time.Time
		Scenes []demoView
	}{At: scenes.At}
	for _, s := range scenes.Scenes {
		shown.Scenes = append(shown.Scenes, viewDemo(s))
	}
	return shown, nil
}

func viewDemo(s DemoScene) demoView {
	v := demoView{DemoScene: s}
	v.Story = capital(s.Story)
	people, flood := demoTop(&s.Without.People, &s.With.People), demoTop(&s.Without.Flood, &s.With.Flood)
	for _, with := range []bool{false, true} {
		d, title := &s.Without, "Without the throttle"
		if with {
			d, title = &s.With, "With the throttle"
		}
		side := demoSide{Title: title, Gate: d.Gate, With: with, People: d.People.says("served"),
			Flood: d.Flood.says("passed"), Plots: []*gatePlot{d.plot("People", title, &d.People, people),
				d.plot("Flood", title, &d.Flood, flood)}}
		side.Bad = (d.People.Refused+d.People.Failed)*20 > d.People.Sent
		v.Sides = append(v.Sides, side)
		v.Seen = v.Seen || d.People.Sent+d.Flood.Sent > 0
	}
	return v
}

// says writes what became of the requests of a role since it came.
func (r *DemoRole) says(passed string) string {
	if r.Sent == 0 {
		return "nobody yet"
	}
	told := []string{fmt.Sprintf("%d of %d %s", r.Served, r.Sent, passed)}
	if r.Served > 0 && passed == "served" {
		told[0] += fmt.Sprintf(" (half of them within %s)", about(time.Duration(r.Median*float64(time.Millisecond))))
	}
	for _, part := range []struct {
		n    int64
		what string
	}{{r.Refused, "refused by weir"}, {r.Failed, "failed"}, {r.Held, "held"}} {
		if part.n > 0 {
			told = append(told, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(told, ", ")
}

// demoTop is the height of the plots of a role: both sides have the same.
func demoTop(sides ...*DemoRole) float64 {
	most := int64(0)
	for _, r := range sides {
		for i := range r.Passed {
			most = max(most, r.Passed[i], r.NotPassed[i])
		}
	}
	return rateTop(float64(most))
}

// plot draws what passed in each of the last seconds, and what did not.
func (d *DemoSide) plot(title, side string, r *DemoRole, top float64) *gatePlot {
	passed, not := "served", "not served"
	if title == "Flood" {
		passed, not = "passed", "turned away"
	}
	sp := span{DemoSeconds, 20, 2.5, "the last minute", "a minute ago"}
	line := func(name, class string, each []int64) plot.Series {
		l := plot.Series{Name: name, Class: class, Sign: plot.None, Area: true, Gap: sp.gap}
		for i, n := range each {
			l.Points = append(l.Points, plot.Point{X: float64(i - len(each) + 1), Y: float64(n),
				Value: perSecond(float64(n))})
		}
		return l
	}
	now := []string{lastOf(r.Passed), lastOf(r.NotPassed)}
	p := sp.draw(title, "a second", fmt.Sprintf("%s, %s: now %s a second %s and %s %s, in the last minute.", side,
		strings.ToLower(title), now[0], passed, now[1], not), time.Unix(d.At, 0), top, rateTicks(top),
		line(passed, "admitted", r.Passed), line(not, "refused", r.NotPassed))
	p.Each = now
	return p
}

func lastOf(each []int64) string {
	if len(each) == 0 {
		return rate(math.NaN())
	}
	return rate(float64(each[len(each)-1]))
}
