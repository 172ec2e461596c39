package rlsgate

import (
	"weir"
	"weir/gate"
	"weir/internal/grpcserve"
	"weir/policy"
)

// An Env is what a gate needs of its surroundings. The zero value keeps the machine's time, and neither logs nor
// observes.
type Env struct {
	gate.Env
	Observer Observer
	// Offend is told of whoever belongs on the block list.
	Offend func(ev *weir.Event, a *weir.Answer)
}

// Parts are what the gate asks, made for one set of options.
type Parts struct {
	// Domains has the chain of each domain that the options list.
	Domains map[string]*policy.Chain
	// Authz is the chain of external authorization; nil where the options have none.
	Authz *policy.Chain
	// Limit makes, or finds, the throttle that counts a rule of an imported file, or an override in a request. It is
	// called once for each rule when options are prepared, and for overrides when they are first met. It may be nil
	// where nothing is imported; overrides are then left out of account.
	Limit func(Rule) (*policy.Link, error)
}

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block.
type Observer interface {
	// Answered tells that a call to one of the Service names was answered, with one of the Code names.
	Answered(service, code string)
	// Bounded tells that something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// The services.
const (
	ServiceRateLimit = "ratelimit"
	ServiceAuthz     = "authz"
)

// ServiceNames lists the services.
var ServiceNames = [...]string{ServiceRateLimit, ServiceAuthz}

// How calls are answered.
const (
	CodeOK        = "ok"
	CodeOverLimit = "over_limit" // by the rate limit service
	CodeDenied    = "denied"     // by external authorization
	CodeInvalid   = "invalid"    // the request is malformed, or over a bound
	CodeLeft      = "left"       // the caller did not wait for the answer
	CodeBusy      = "busy"       // more requests than the gate takes, or it stops
	CodeFailed    = "failed"     // a throttle failed
)

// What Observer.Bounded is told.
const (
	BoundConnections = "connections"
	BoundRequests    = "requests"
	BoundDescriptors = "descriptors"
	BoundEntries     = "entries"
	BoundValue       = "value"
	BoundOverrides   = "overrides"
	// a request or a descriptor that names its account twice, or in a way that servers read differently
	BoundAccount = "account"
)

// BoundNames lists what Observer.Bounded may be told: these, and the bounds of connections.
var BoundNames = boundNames()

func boundNames() []string {
	names := []string{BoundConnections, BoundRequests, BoundDescriptors, BoundEntries, BoundValue, BoundOverrides,
		BoundAccount}
	for _, b := range grpcserve.Bounds {
		names = append(names, b.Name)
	}
	return names
}

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

func (nobody) Answered(string, string) {}
func (nobody) Bounded(string)          {}
