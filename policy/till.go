package policy

import (
	"context"

	"weir"
)

// A Till is a throttle that takes stamps and asks for them. It serves all throttles of its chain: one that wants to be
// paid answers Challenge, the gate asks the till for a puzzle, and what the client comes back with goes to the till.
type Till interface {
	// Receive looks at a stamp and takes it. The stamp may be empty: the till may know that nothing is asked of the
	// event. message is what the stamp must pay for (weir.Terms.Binds). refund gives it back, and may be nil.
	Receive(ctx context.Context, ev *weir.Event, stamp, message string) (paid weir.Paid, refund func())
	// Ask makes a puzzle for a client. Its price follows the load in the event, and is never nothing.
	Ask(ev *weir.Event, client, message string) (weir.Puzzle, error)
	// Terms says how stamps are used.
	Terms() weir.Terms
}

// Till returns the first throttle of the chain that takes stamps, or nil.
func (c *Chain) Till() Till {
	for _, link := range c.links {
		if t, ok := link.Throttle.(Till); ok {
			return t
		}
	}
	return nil
}
