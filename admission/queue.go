package admission

import (
	"weir"
	"weir/internal/queue"
)

// A lane is one of the two ways to the upstream.
type lane uint8

const (
	pool    lane = iota // without a stamp
	stamped             // those who paid
	lanes
)

// A round is where the requests of a lane, or of a half of it, wait in turns. The pool has two rounds, which alternate.
type round uint8

const (
	held   round = iota // requests of the pool
	called              // people who were called from the waiting room
	paid                // the stamped lane
	rounds
)

// other returns, for one round of the pool, the other one.
func (r round) other() round { return held + called - r }

func (r round) lane() lane {
	if r == paid {
		return stamped
	}
	return pool
}

// A waiter is a request that waits in a lane.
type waiter struct {
	request
	cheap  bool               // its stamp is worth at most half of the price, so it waits for all that are worth more
	seq    uint64             // the order in which waiters came
	since  int64              // when it began to wait
	turn   *weir.Turn         // ends the wait
	place  place              // the place that it gets
	age    queue.Node[waiter] // in the list of all waiters by age
	least  int                // index in the heap of waiters by work
	line   *line              // of its client; nil when it does not wait any more
	person *person            // of its line
	spot   queue.Node[waiter] // in the list of the person's waiters
}
