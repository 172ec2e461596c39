package gate

import (
	"context"
	"net"
	"net/netip"

	"weir/identify"
	"weir/policy"
)

// Options are those of one kind of gate, as the configuration has them. A field of config.Config whose type has these
// methods, or is a list of such, is a kind of gate.
type Options interface {
	Validate() error
	// Facts says what others have to know of the gate. It fills in defaults where they matter.
	Facts() Facts
}

// Facts are what the rest of weir has to know of a gate's options.
type Facts struct {
	Listen  string // where clients come in
	UDP     bool
	Lists   []List
	Sockets int // how many it may have open, as far as the options say so
	Clients Clients
	Routes  []Clients // what routes say instead
}

// A List is a list of throttles.
type List struct {
	Key    string // where it stands in the options
	Names  []string
	Judges Judged
	Apart  bool // it is not for all requests: the kind of gate sees to its chain
	// Parts are the words of what keys of limits may have besides account, network and country, as in identify.Key.
	Parts []string
	// Answers says that the gate sees what becomes of an event, or is told, and so what it cost.
	Answers bool
}

// HTTPParts are the parts of keys that every HTTP request has, or may have.
func HTTPParts() []string {
	return []string{"method", "host", "path", "header", "bearer", "query", "cookie"}
}

// NamedParts are the parts of keys that a program may name that asks.
func NamedParts() []string { return append(HTTPParts(), "jwt", "cert") }

// Judged is what the throttles of a list judge.
type Judged int

// What throttles judge.
const (
	Requests    Judged = iota // what can be answered
	Arrivals                  // connections of which only the source is known
	Connections               // what cannot be asked to pay
	Messages                  // mail as a whole
	Recipients                // single recipients of mail
	Questions                 // what other programs ask about
)

// OfMail reports whether mail is judged, as a whole or recipient by recipient.
func (j Judged) OfMail() bool { return j == Messages || j == Recipients }

// Clients is how a gate tells who its clients are.
type Clients struct {
	Under     string         // the key that it stands under, or empty
	Proxies   []netip.Prefix // whose word is taken for a client's address
	Account   []string       // where a request names its account
	Conflict  identify.Conflict
	Throttles []string // that judge these clients
	Asked     bool     // the gate hears of the beginning of a request only, from a proxy that asks
}

// UsualSockets is how many connections a gate is taken to have where the options do not bound them. The default bounds
// are far above that.
const UsualSockets = 1000

// A Gate is what every kind of gate can do. A Skeleton has all of it.
type Gate interface {
	Listen() error
	Addr() net.Addr
	Start()
	Unlisten()
	Stop(context.Context) error
}

// A Maker is the options of a gate that is made without anything else of weir. Package app needs to know nothing of
// such a kind.
type Maker interface {
	Options
	// Make makes the gate. It gets the chains by the keys of the lists in Facts.
	Make(chains map[string]*policy.Chain, env Env) (Made, error)
}

// Made is a gate that a Maker made.
type Made interface {
	Gate
	// Prepare makes ready to go on with other options of the same type, and the same address.
	Prepare(o Options, chains map[string]*policy.Chain) (commit, abort func(), err error)
}
