package authgate

import (
	"time"

	"weir"
	"weir/gate"
)

// An Env is what a gate needs of its surroundings. The zero value keeps the machine's time, and neither logs nor
// observes.
type Env struct {
	gate.Env
	Observer Observer
	// Offend is told of whoever belongs on the block list.
	Offend func(ev *weir.Event, a *weir.Answer)
}

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block.
type Observer interface {
	// Decided tells that a question was answered: with what verdict in the end, and how long the gate held the answer
	// back for a turn.
	Decided(v weir.Verdict, held time.Duration)
	// Waiting tells that so many more, or fewer, answers are held back.
	Waiting(delta int)
	// Bounded tells that something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// What Observer.Bounded is told.
const (
	BoundConnections = "connections"
	BoundRequests    = "requests"
	BoundWaiting     = "waiting"
	BoundHeader      = "header"
	BoundStranger    = "stranger"  // asked by somebody who is no trusted proxy
	BoundMalformed   = "malformed" // the headers do not say, beyond doubt, what the request was
	BoundAccount     = "account"   // the request names its account twice, or in a way that servers read differently
)

// BoundNames lists what Observer.Bounded may be told.
var BoundNames = [...]string{BoundConnections, BoundRequests, BoundWaiting, BoundHeader, BoundStranger, BoundMalformed,
	BoundAccount}

func (e Env) withDefaults() Env {
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	if e.Offend == nil {
		e.Offend = func(*weir.Event, *weir.Answer) {}
	}
	return e
}

type nobody struct{}

func (nobody) Decided(weir.Verdict, time.Duration) {}
func (nobody) Waiting(int)                         {}
func (nobody) Bounded(string)                      {}
