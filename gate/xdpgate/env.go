package xdpgate

import (
	"weir/gate"
	"weir/throttle/bloom"
)

// An Env is what a gate needs of its surroundings. The zero value keeps the machine's time, and neither logs nor
// observes.
type Env struct {
	gate.Env // its clock says when the tables are cared for; packets are judged by the kernel's own clock
	Observer Observer
}

// An Observer is told what the operator should know. Its method must neither block nor call back. What happens to
// packets is told by Gate.Counters.
type Observer interface {
	// Notice tells that more innocent networks are refused than allowed, or no longer.
	Notice(bloom.Notice)
}

func (e Env) withDefaults() Env {
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	return e
}

type nobody struct{}

func (nobody) Notice(bloom.Notice) {}
