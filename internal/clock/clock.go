// Package clock is the only place in which time is read and waited for. Everything below app takes the time as a value;
// app and the gates take a Clock, which a test can control.
package clock

import "time"

// A Clock tells the time and runs functions later.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f on its own goroutine when d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// A Timer is a function that will run later.
type Timer interface {
	// Stop keeps the function from running. It reports whether it did.
	Stop() bool
}

// A Shifted clock is another one, moved by a time that may change. It must change more slowly than time passes.
type Shifted struct {
	Clock
	By func() time.Duration
}

func (c Shifted) Now() time.Time { return c.Clock.Now().Add(c.By()) }

// System is the machine's clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time                            { return time.Now() }
func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
