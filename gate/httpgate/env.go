package httpgate

import (
	"crypto/rand"
	"crypto/x509"
	"time"

	"weir"
	"weir/gate"
	"weir/gate/httpgate/accesslog"
	"weir/gate/httpgate/keys"
	"weir/traces"
	behind "weir/upstream"
)

// An Env is what a gate needs of its surroundings. The zero value uses the system's clock, and neither logs nor
// observes.
type Env struct {
	gate.Env
	Access   accesslog.Log  // see Gate.SetAccess
	Tracer   *traces.Tracer // nil for no traces; see Gate.SetTracer
	Observer Observer
	// Upstream is told how the servers behind the gate do; nil for nobody.
	Upstream behind.Observer
	// Resolver looks up the names of servers behind the gate, where the options say so; nil for the machine's.
	Resolver behind.Resolver
	// Offend is told of clients that belong on the block list.
	Offend func(ev *weir.Event, a *weir.Answer)
	// Secrets sign the ids and tickets that clients are given, at a gate with these throttles: the first one does, all
	// are honoured. They are asked for with each set of options, and when the gate starts. Default: a random one.
	Secrets func(throttles []string) [][]byte
	// Scripts are served under /.weir/ where stamps are taken: the solver and its like, by name.
	Scripts map[string][]byte
	// Roots sign the certificates of servers: of those behind the gate, and of those from which keys of tokens are
	// fetched. nil stands for the authorities that the system trusts.
	Roots *x509.CertPool
	// Data is the folder below which ordered certificates are kept; empty for none.
	Data string
	// Proofs are shared by all gates, so that those without TLS can answer for the others; nil for none.
	Proofs *keys.Proofs
}

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block.
type Observer interface {
	// InFlight tells that so many more, or fewer, requests are under way, those that wait included.
	InFlight(delta int)
	// Waiting tells that so many more, or fewer, requests are held back.
	Waiting(delta int)
	// Reading tells that so many more, or fewer, bodies are being read before their requests have a place.
	Reading(delta int)
	// Served tells that a request has been answered: on what verdict, with what status, how long the gate held it up
	// before it went on or was refused, and how long it took in all.
	Served(verdict weir.Verdict, status int, added, total time.Duration)
	// Bounded tells that something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// What Observer.Bounded is told.
const (
	BoundConnections = "connections"
	BoundRequests    = "requests"
	BoundWaiting     = "waiting"
	BoundHeader      = "header"
	BoundBody        = "body"
	BoundBodies      = "bodies"    // a body too many that was to be read before its request had a place
	BoundMalformed   = "malformed" // a request that breaks the rules of HTTP's framing

	BoundClientBodies = "client_bodies" // and one too many of the same client

	BoundHandshakes  = "handshakes"   // a connection too many whose PROXY header or TLS handshake is under way
	BoundHandshake   = "handshake"    // a TLS handshake that failed
	BoundProxyHeader = "proxy_header" // a connection without the PROXY header that it must begin with
	// a request that names its account twice, or in a way that servers read differently
	BoundAccount = "account"
	BoundToken   = "token" // a JSON Web Token that is not good
	BoundRoute   = "route" // a request that no route matches
	// a request that servers may read as one for several routes
	BoundUnclear = "unclear"
	BoundCost    = "cost" // an answer whose price is not a number
	BoundLoop    = "loop" // a request that has come by too many gates
	// a new certificate, or other file or set of keys, that is of no use: the old one stays
	BoundCertificate = "certificate"
)

// BoundNames lists what Observer.Bounded may be told.
var BoundNames = [...]string{BoundConnections, BoundRequests, BoundWaiting, BoundHeader, BoundBody, BoundMalformed,
	BoundBodies, BoundClientBodies,
	BoundHandshakes, BoundHandshake, BoundProxyHeader, BoundAccount, BoundToken, BoundCost, BoundCertificate,
	BoundRoute, BoundUnclear, BoundLoop}

func (e Env) withDefaults() Env {
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	if e.Offend == nil {
		e.Offend = func(*weir.Event, *weir.Answer) {}
	}
	if e.Secrets == nil {
		secret := make([]byte, 32)
		rand.Read(secret)
		e.Secrets = func([]string) [][]byte { return [][]byte{secret} }
	}
	return e
}

type nobody struct{}

func (nobody) InFlight(int)                                           {}
func (nobody) Waiting(int)                                            {}
func (nobody) Served(weir.Verdict, int, time.Duration, time.Duration) {}
func (nobody) Reading(int)                                            {}
func (nobody) Bounded(string)                                         {}
