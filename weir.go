package weir

import (
	"net/netip"
	"time"
)

// An Event is a request, a message or a connection. The gate fills it in; throttles never change or keep it.
type Event struct {
	Time    time.Time  // when it happened; throttles know no other clock
	Source  netip.Addr // where it came from, behind trusted proxies; it is charged; invalid where there is none
	Account string     // the account it is charged to; empty when the event names none
	Plan    string     // the plan of the account as the gate knows it; a throttle's own list of members goes first
	Kind    string     // the channel: "http", "mail", "sms", "tcp", "udp", "connection"
	ID      string     // the id that logs and answers show for it
	Route   Route      // what it is about
	Cost    int64      // how many requests it is worth; 0 counts as 1
	Bytes   int64      // how large it is, where that is known beforehand
	Client  string     // the id that weir gave to the client; empty where it has none
	Agent   string     // the program that the client says it is; worth nothing by itself
	Load    Load       // of what is behind the gate
	Place   Place      // in the general pool
	Pool    Pool       // takes it into the general pool without payment; nil where there is none
	Holder  Holder     // whoever has the place that it is given; nil where nobody can be asked
	Purse   *Purse     // what it brings to pay with; nil for nothing
	Message *Message   // what only messages have; nil for everything else
	Parts   []Part     // what keys of limits are made of, besides the fields above, as far as it is there

	// A forwarding header breaks off: Source is the proxy that reported it, not the client.
	SourceUnknown bool
}

// Freed reports whether a list of sources frees the event from something. Where the source is not known, none does: a
// list that contains the proxy says nothing about who is behind it.
func (e *Event) Freed(listed func(netip.Addr) bool) bool {
	return !e.SourceUnknown && e.Source.IsValid() && listed(e.Source)
}

// A Part is what a request says about itself under a name by which the keys of limits ask for it, such as
// "header:X-Tenant". The gate has read it as strictly as an account.
type Part struct{ Name, Value string }

// A Message is what only messages have: mail, text messages and the like.
type Message struct {
	User       string   // the sender, as the channel knows them
	Recipients []string // as written
	Name       string   // of the recipient, where the channel has no address
	Phone      string
	Stamp      string // what was paid, as it came
}

// Charge returns what the event costs, at least 1.
func (e *Event) Charge() int64 { return max(e.Cost, 1) }

// A Route says what an event is about, in the words of HTTP. Other channels fill in what they have.
//
// Servers read a request in different ways. A limit holds if it holds for any reading, an exemption if for all.
type Route struct {
	Method      string
	Host        string // lower case, without the port
	Path        string
	Odd         bool     // the path was written in a way that others may read differently
	Also        []string // other paths that servers may read instead; nil where there is one reading
	AlsoMethods []string // other methods that servers may take it for; nil where there is one
}

// Any in Route.Also and Route.AlsoMethods means every path and every method: there are too many readings to list.
const Any = "*"

// A Load says how busy what is behind a gate is.
type Load struct {
	Of    string        // which gate, for throttles in several
	Share Share         // what is asked of it, in proportion to what it can do; above 1 when that is too much
	Delay time.Duration // how long those wait who paid
}

// A Place is one in the general pool. The zero value is none.
type Place struct {
	Number uint64 // of the ticket, in the order in which tickets were given
	Called bool   // the number has been called
	Held   bool   // the pool took it without a ticket: it has a place at once, or is held until one is free
}

// A Pool takes events that did not pay. A throttle that is about to ask for payment asks the pool first, once at most.
type Pool interface {
	// Take reports whether the pool takes the event, and notes the place in the event.
	Take() bool
}

// A Holder has a place at the upstream. Its methods may be called from any goroutine until the event is settled.
type Holder interface {
	// Moved is how many bytes have gone through so far, in both directions, and whether the event waits for its client:
	// that owes bytes of its body, or does not take the answer.
	Moved() (n int64, late bool)
	// Lose takes the place away: the event ends soon, and is settled as always. It must not block, nor call back.
	Lose()
}
