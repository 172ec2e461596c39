package demo

import (
	"context"
	"time"

	"weir/config"
)

// scenes returns what is played, in order. Every mechanism has its scene here.
func scenes() []Scene {
	return []Scene{
		quotaScene(),
	}
}

// A Scene is one story about a throttle. It is a value and may be played any number of times.
type Scene struct {
	Name  string // one word: the mechanism
	Story string // one line, without a full stop

	// LimitPerSecond is what one account may do, for the report.
	LimitPerSecond int64

	// Setup starts what stands behind the gate, with Stage.Serve, and returns the configuration of the weir in front of it. Data
	// folder, console and log are the stage's business.
	Setup func(*Stage) (config.Config, error)
	// Cast is who sends traffic.
	Cast []Actor
	// Try returns command lines for a visitor who wants to take part. May be nil.
	Try func(*Stage) []string
	// Tell says in a sentence or two what was seen, with the figures of the report.
	Tell func(SceneReport) []string
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

	// Enter is called once for each half. It returns what a worker does again and again, and what is done when all of them have
	// finished. Workers call act at the same time.
	Enter func(*Stage) (act func(context.Context) Result, leave func())
	// Pause returns how long a worker rests after a result, and before the first, as if after one that was served.
	Pause func(Result) time.Duration
}

// A Result is what became of one thing that an actor did.
type Result int

// The results.
const (
	Served  Result = iota
	Refused        // by weir, and told so
	Failed         // anything else
)
