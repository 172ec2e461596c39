package tcpgate

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

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block. What a
// door turns away is in the counts of its throttles.
type Observer interface {
	// Connections tells that so many more, or fewer, connections are open; for udp, sessions.
	Connections(delta int)
	// Waiting tells that so many more, or fewer, connections are held back.
	Waiting(delta int)
	// Judged tells on what verdict a connection, or a packet, went on or was turned away. Wait means that a connection
	// went on after a wait, and that a packet was dropped.
	Judged(verdict weir.Verdict)
	// Passed tells that so many bytes went on: in from the client to the upstream, and out to the client.
	Passed(in, out int64)
	// Unreached tells that the upstream could not be reached for a connection or a packet.
	Unreached()
	// Bounded tells that something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// What Observer.Bounded is told.
const (
	BoundConnections = "connections"
	BoundWaiting     = "waiting"
	BoundHeader      = "header" // a trusted proxy's PROXY header was missing, garbled or late
	BoundClients     = "clients"
	BoundPacket      = "packet"
)

// BoundNames lists what Observer.Bounded may be told.
var BoundNames = [...]string{BoundConnections, BoundWaiting, BoundHeader, BoundClients, BoundPacket}

func (e Env) withDefaults() Env {
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	return e
}

type nobody struct{}

func (nobody) Connections(int)     {}
func (nobody) Waiting(int)         {}
func (nobody) Judged(weir.Verdict) {}
func (nobody) Passed(int64, int64) {}
func (nobody) Unreached()          {}
func (nobody) Bounded(string)      {}
