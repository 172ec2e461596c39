package apigate

import (
	"weir"
	"weir/gate"
)

// An Env is what a gate needs of its surroundings. The zero value keeps the machine's time, and neither logs nor
// observes.
type Env struct {
	gate.Env
	Observer Observer
}

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block.
type Observer interface {
	// Decided tells that a question to a policy was answered with a verdict. The outcome of a wait is not told again.
	Decided(policy string, v weir.Verdict)
	// Holds tells that so many more, or fewer, holds are open.
	Holds(delta int)
	// Expired tells that the gate settled a hold because its client did not in time.
	Expired()
	// Bounded tells that something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// What Observer.Bounded is told.
const (
	BoundConnections = "connections"
	BoundRequests    = "requests"
	BoundBody        = "body"
	BoundBatch       = "batch"
	BoundRecipients  = "recipients"
	BoundHolds       = "holds"
)

// BoundNames lists what Observer.Bounded may be told.
var BoundNames = [...]string{BoundConnections, BoundRequests, BoundBody, BoundBatch, BoundRecipients, BoundHolds}

func (e Env) withDefaults() Env {
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	return e
}

type nobody struct{}

func (nobody) Decided(string, weir.Verdict) {}
func (nobody) Holds(int)                    {}
func (nobody) Expired()                     {}
func (nobody) Bounded(string)               {}
