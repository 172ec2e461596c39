package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"weir/internal/clock"
	"weir/internal/http1"
)

// An Env is what a pool needs from its caller. The zero value uses the machine's clock and observes nothing.
type Env struct {
	Clock    clock.Clock
	Observer Observer
	Roots    *x509.CertPool // of the certificates of https servers; nil for those that the machine trusts
	Resolver Resolver       // looks names up, where the options say so; nil for the machine's
}

// A Resolver looks up the addresses of a name; network is ip, ip4 or ip6. A net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

var _ Resolver = (*net.Resolver)(nil)

// An Observer is told what happens to the servers of a pool, from many goroutines. It must not block.
type Observer interface {
	// Failed reports that a server did not answer a request, or not correctly. why is one of the Fail names.
	Failed(server, why string)
	// Retried reports that a request that failed on another server is given to this one.
	Retried(server string)
	// Turned reports that a server is healthy again, or not any more.
	Turned(server string, well bool)
	// Resolved reports that a server's name was looked up: how many addresses are in use, and why they are not new.
	Resolved(server string, addresses int, err error)
	// Left reports that a server is no more, as its name does not have that address any longer.
	Left(server string)
	// Bounded reports that something was left undone at a bound, one of the Bound names.
	Bounded(bound string)
}

// What Observer.Bounded is told.
const (
	BoundConcurrent = "upstream_concurrent" // a request that no server could be given
	BoundBodies     = "upstream_bodies"     // a body that could not be kept for another try
	BoundAddresses  = "upstream_addresses"  // an address of a name that is not used
)

// BoundNames lists what Observer.Bounded may be told.
var BoundNames = [...]string{BoundConcurrent, BoundBodies, BoundAddresses}

// Why a server failed.
const (
	FailConnect   = "connect"   // no connection came about
	FailTimeout   = "timeout"   // it took too long
	FailBroken    = "broken"    // the connection ended too early
	FailMalformed = "malformed" // its answer is not HTTP, or could be read in two ways
	FailHeader    = "header"    // its headers are too large or too many
	FailCheck     = "check"     // a check failed
	FailStatus    = "status"    // it answered with a status that counts as a failure
	FailResolve   = "resolve"   // its name could not be looked up
)

// An Error says that a server did not answer a request.
type Error struct {
	Server  string
	Why     string // one of the Fail names
	Reached bool   // the request may have reached the server
	Err     error

	seen     bool // a part of an answer came
	consumed bool // a part of the request's body was read
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.Server, e.Why, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the server took too long.
func (e *Error) Timeout() bool {
	if e.Why == FailTimeout {
		return true
	}
	ne, ok := errors.AsType[net.Error](e.Err)
	return ok && ne.Timeout()
}

// A Caller has what an http.Request lacks, and is told what an http.Response lacks. It may be nil.
type Caller interface {
	// Ends are the addresses of the client and of what it connected to, for the PROXY protocol.
	Ends() (client, local netip.AddrPort)
	// Early is given an informational answer, other than 100 and 101, before the final one. An error ends the request.
	Early(status int, f *http1.Fields) error
	// Waits is called when the answer takes longer. It returns a context that ends when the client leaves.
	Waits() context.Context
	// Received reports whether all of the request has come from the client: until then, a server may have lost patience
	// with the client.
	Received() bool
	// Sent is called when the request, or the head of one with a body, was written. It may be called more than once.
	Sent()
}

func (e Env) withDefaults() Env {
	if e.Clock == nil {
		e.Clock = clock.System
	}
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	if e.Resolver == nil {
		e.Resolver = net.DefaultResolver
	}
	return e
}

type nobody struct{}

func (nobody) Failed(string, string) {}
func (nobody) Retried(string)        {}
func (nobody) Turned(string, bool)   {}

func (nobody) Resolved(string, int, error) {}
func (nobody) Left(string)                 {}
func (nobody) Bounded(string)              {}
