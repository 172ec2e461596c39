package weir

import (
	"context"
	"time"
)

// Paid is what was paid for an event. The zero value is nothing.
type Paid struct {
	Work  uint64 // of the stamp, in operations
	Uses  int    // how often the stamp has been used, this time included; 0 counts as 1
	Free  bool   // nothing is asked of it: the operator said so
	Fault Reason // why what it brought is worth nothing; NoReason for nothing brought, too
}

// First reports whether the event goes before those that paid nothing.
func (p Paid) First() bool { return p.Work > 0 || p.Free }

// A Purse is what an event brings to pay with. The first throttle that asks for payment opens it: where nothing is
// asked, nothing is spent. It belongs to the goroutine of its event. A nil Purse is empty.
type Purse struct {
	pay    func(context.Context, *Event) (Paid, func())
	paid   Paid
	refund func()
	opened bool
}

// NewPurse returns a purse that pays by a function, called once at most. The func() it returns is a refund, or nil.
func NewPurse(pay func(context.Context, *Event) (Paid, func())) *Purse { return &Purse{pay: pay} }

// Open pays, if that has not been done, and says what.
func (p *Purse) Open(ctx context.Context, ev *Event) Paid {
	if p == nil {
		return Paid{}
	}
	if !p.opened {
		p.opened = true
		p.paid, p.refund = p.pay(ctx, ev)
	}
	return p.paid
}

// Paid says what was paid so far, and pays nothing.
func (p *Purse) Paid() Paid {
	if p == nil {
		return Paid{}
	}
	return p.paid
}

// Refund takes back what was paid: the event did not go on.
func (p *Purse) Refund() {
	if p == nil || p.refund == nil {
		return
	}
	p.refund()
	p.refund, p.paid = nil, Paid{}
}

// A Puzzle is what a client has to solve. Gates pass Text on and read nothing in it.
type Puzzle struct {
	Text      string
	Algorithm string
	Work      uint64        // the expected number of operations
	Takes     time.Duration // about so long on a phone
	Expires   time.Time
	Dear      bool // it costs more than usual, as too many requests from the client's address did not pay
}

// Terms say how stamps are used.
type Terms struct {
	Covers  int  // how many requests one pays for
	Binds   bool // it pays for a single message: method, URL and body
	Address bool // the client's address is its id, and nothing else
	Strict  bool // without a stamp nobody goes on while others with one wait
	// Always is the flow of the source document: whoever does not pay is asked to, however much is free.
	Always bool
}
