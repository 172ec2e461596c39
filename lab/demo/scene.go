package demo

import (
	"context"
	"slices"
	"time"

	"weir/config"
)

// scenes returns what is played, in order. Every mechanism has its scene here.
func scenes() []Scene {
	return []Scene{
		quotaScene(),
		bloomScene(),
		stampScene(),
		farmScene(),
		mailScene(),
	}
}

// A Scene is one story about a throttle. It is a value and may be played any number of times.
type Scene struct {
	Name  string // one word: the mechanism
	Story string // one line, without a full stop

	// Weight is how much of the time the scene has, in proportion to the others. Default 1.
	Weight int
	// Preview is which part of that it is played without the throttle. Default a quarter.
	Preview float64

	// Rule is the limit as a sentence.
	Rule string
	// LimitPerSecond is what one account or network may do, for the report. 0 where no such limit is set.
	LimitPerSecond float64
	// Allows returns the most that the limits let the flood have in a half. May be nil, where there is no such limit.
	Allows func(Half) int64

	// Apart says that the scene has weirs of its own, and not a gate of the one that all others share.
	Apart bool
	// Possible says why the scene cannot be played here, or nil. May be nil.
	Possible func() error
	// Setup starts what stands behind the gate, with Stage.Serve, and returns the configuration of the weir in front of
	// it. Data folder, console and log are the stage's business.
	Setup func(*Stage) (config.Config, error)
	// Pay makes people pay for stamps from now on, or not. They pay until it is called. May be nil, where they have no
	// choice.
	Pay func(s *Stage, on bool)
	// Ready does what needs a running weir, before anybody comes. May be nil.
	Ready func(*Stage) error
	// Expects are warnings of weir that are a part of the story, and are not shown.
	Expects []string
	// Cast is who sends traffic.
	Cast []Actor
	// Try returns command lines for a visitor who wants to take part. May be nil.
	Try func(*Stage) []string
	// Tell says in a few sentences what was seen, with the figures of the report. It is called if the flood came while
	// the throttle was at work.
	Tell func(SceneReport) []string
	// Mail returns what became of a stolen account in this half. May be nil, where there is no mail.
	Mail func(*Stage) *Mail
	// Farm returns what became of stamps and bans in this half. May be nil, where there is one weir only.
	Farm func(*Stage) *Farm
	// Checks returns what must be so, as far as the scene came. May be nil.
	Checks func(SceneReport) []Check
}

// A Role says on which side an actor is counted.
type Role string

// The roles.
const (
	People Role = "people"
	Flood  Role = "flood"
)

// An Actor sends traffic. Its workers each do one thing at a time.
type Actor struct {
	Name    string
	Role    Role
	Workers int // side by side
	// WithFlood says that the actor comes and goes with the flood that a visitor calls: it has a part in its story.
	WithFlood bool

	// Enter is called once for each half. It returns what a worker does again and again, and what is done when all of
	// them have finished. Workers call act at the same time.
	Enter func(*Stage) (act func(context.Context) Result, leave func())
	// Later is given, once for each half and before Enter, how to tell what became of something that was Held, and how
	// long it took. May be nil, where all is known at once.
	Later func(*Stage, func(Result, time.Duration, time.Time))
	// Networks returns how many networks the actor came from. May be nil, where that does not matter.
	Networks func(*Stage) Networks
	// Work returns how long a phone would have worked on what the actor has paid in this half. May be nil, where nobody
	// pays.
	Work func(*Stage) time.Duration
	// Turn returns from when to when the actor comes, in a half that takes so long. May be nil: it comes all the time.
	Turn func(atWork bool, half time.Duration) Span
	// Pause returns how long a worker rests after a result, and before the first, as if after one that was served.
	Pause func(Result) time.Duration
}

// A Span is a part of a half, counted from its beginning. A half with an open end is played in rounds, and each has
// that part. An empty one is no time at all.
type Span struct{ From, To time.Duration }

// Networks are how many networks an actor came from.
type Networks struct {
	Half int64 // in this half
	Ever int64 // in both
}

// A Result is what became of one thing that an actor did.
type Result int

// The results.
const (
	Served  Result = iota
	Refused        // by weir, and told so
	Failed         // anything else
	Held           // taken over by weir, and not handed on yet
	Nothing        // there was nothing to do; it is not counted
)

// tell says what was seen.
func (s *Scene) tell(r SceneReport) []string {
	if r.Flood.Sent == 0 {
		return []string{"The scene was stopped before the throttle was at work."}
	}
	return s.Tell(r)
}

// holds reports whether something may be held in the scene.
func (s *Scene) holds() bool {
	return slices.ContainsFunc(s.Cast, func(a Actor) bool { return a.Later != nil })
}
