package policy

import (
	"context"
	"slices"
	"strings"
	"time"

	"weir"
)

// A StampTaker is a throttle that takes stamps and asks for them. It serves all throttles of its chain: one that wants
// to be paid answers Challenge, the gate asks the stamp taker for a puzzle, and what the client comes back with goes to
// the stamp taker.
type StampTaker interface {
	// Receive looks at a stamp and takes it. The stamp may be empty: the stamp taker may know that nothing is asked of
	// the event. message is what the stamp must pay for (weir.Terms.Binds). refund gives it back, and may be nil.
	Receive(ctx context.Context, ev *weir.Event, stamp, message string) (paid weir.Paid, refund func())
	// Ask makes a puzzle for a client. Its price follows the load in the event, and is never nothing.
	Ask(ev *weir.Event, client, message string) (weir.Puzzle, error)
	// Terms says how stamps are used.
	Terms() weir.Terms
}

// Lanes are the throttle of a chain that limits how much its upstream has to do at once. It comes last.
type Lanes interface {
	weir.ConcurrencyLimiter
	// TurnedAway is called for an event that wanted a place at the upstream and was turned away before it had one.
	TurnedAway(ev *weir.Event, now time.Time)
}

// assign finds the links that have a role in the chain beside judging: the first stamp taker, and the lanes.
func (c *Chain) assign() {
	for _, link := range c.links {
		switch link.Throttle.(type) {
		case StampTaker:
			if c.taker == nil {
				c.taker = link
			}
		case Lanes:
			c.lanes = link
		}
	}
}

// StampTaker returns the first throttle of the chain that takes stamps, or nil.
func (c *Chain) StampTaker() StampTaker {
	if c.taker == nil {
		return nil
	}
	return c.taker.Throttle.(StampTaker)
}

// StampTakerLink is the link of the stamp taker, and LanesLink that of the lanes; nil where the chain has none.
func (c *Chain) StampTakerLink() *Link { return c.taker }
func (c *Chain) LanesLink() *Link      { return c.lanes }

// ByStampTaker reports whether an answer is the stamp taker's, and ByLanes whether it is the lanes'. Both stand for
// limits of the server. Any other answer is about a limit of the client.
func (c *Chain) ByStampTaker(a *weir.Answer) bool { return c.taker != nil && a.By == c.taker.Name }
func (c *Chain) ByLanes(a *weir.Answer) bool      { return c.lanes != nil && a.By == c.lanes.Name }

// A Keyed throttle counts by parts of requests that the gate has to find for it, or charges what answers say.
type Keyed interface {
	// KeyParts lists the parts, as weir.Event.Parts is to name them.
	KeyParts() []string
	// CostHeader is the header of an answer that says what the request cost; empty for none.
	CostHeader() string
}

// KeyParts lists the parts of requests by which throttles of the chain count.
func (c *Chain) KeyParts() (all []string) {
	for _, l := range c.links {
		for _, part := range l.Parts {
			if !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
	}
	return all
}

// CostHeader is the header of answers that says what requests cost; empty where no throttle looks at one. All throttles
// of a chain have the same.
func (c *Chain) CostHeader() string {
	for _, l := range c.links {
		if l.CostHeader != "" {
			return l.CostHeader
		}
	}
	return ""
}

// maxPriceDigits is how many digits a price may have. More is no price.
const maxPriceDigits = 15

// PriceOf reads what the values of a cost header say: a whole number that is there once. Anything else says nothing.
func PriceOf(values []string) weir.Price {
	none := weir.Price{Known: weir.Unpriced}
	if len(values) != 1 {
		return none
	}
	text := strings.Trim(values[0], " \t")
	if text == "" || len(text) > maxPriceDigits {
		return none
	}
	n := int64(0)
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return none
		}
		n = 10*n + int64(c-'0')
	}
	return weir.Price{Known: weir.Priced, N: n}
}
