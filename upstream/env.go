package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"weir/internal/clock"
)

// An Env is what a pool needs of its surroundings. The zero value keeps the machine's time and observes nothing.
type Env struct {
	Clock    clock.Clock
	Observer Observer
	Roots    *x509.CertPool // those who sign for servers of https; nil for those that the machine trusts
}

// An Observer is told what happens to the servers of a pool, from many goroutines. It must not block.
type Observer interface {
	// Failed tells that a server did not answer a request, or not as it should, and why: one of the Fail names.
	Failed(server, why string)
	// Retried tells that a request that failed elsewhere is given to this server.
	Retried(server string)
	// Turned tells that a server is well again, or is not any more.
	Turned(server string, well bool)
}

// Why a server failed.
const (
	FailConnect   = "connect"   // no connection came about
	FailTimeout   = "timeout"   // it took too long
	FailBroken    = "broken"    // the connection ended too early
	FailMalformed = "malformed" // what it said is not HTTP, or could be read in two ways
	FailHeader    = "header"    // its headers are too large or too many
	FailCheck     = "check"     // it did not give a good answer when asked how it is
)

// An Error says that a server did not answer a request.
type Error struct {
	Server  string
	Why     string // one of the Fail names
	Reached bool   // the request may have reached the server
	Err     error

	seen     bool // something of an answer came
	consumed bool // something of the request's body was read
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

// A Caller knows what an http.Request does not say, and is told what an http.Response does not say. It may be nil.
type Caller interface {
	// Ends are the addresses of the client and of what it connected to, for the PROXY protocol.
	Ends() (client, local netip.AddrPort)
	// Early is given an informational answer, other than 100 and 101, before the final one. An error ends the request.
	Early(status int, h http.Header) error
	// Waits tells that the answer takes its time, and returns a context that ends when the client leaves.
	Waits() context.Context
	// Sent tells that the request has been written; when it has a body, its head. It may be told more than once.
	Sent()
}

func (e Env) withDefaults() Env {
	if e.Clock == nil {
		e.Clock = clock.System
	}
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	return e
}

type nobody struct{}

func (nobody) Failed(string, string) {}
func (nobody) Retried(string)        {}
func (nobody) Turned(string, bool)   {}
