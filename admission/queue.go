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

// A round is one in which clients take turns. The pool has two, which take turns themselves.
type round uint8

const (
	held   round = iota // requests of the pool
	called              // people who were called from the waiting room
	paid                // the stamped lane
	rounds
)

func (r round) lane() lane {
	if r == paid {
		return stamped
	}
	return pool
}

// A waiter is an event that is held.
type waiter struct {
	request
	cheap  bool   // it is worth half of today's price at most, and waits for all that are worth more
	seq    uint64 // among equals, the first to come
	since  int64  // when it began to wait
	turn   *weir.Turn
	place  place              // that it has, once it has been let in
	age    queue.Node[waiter] // in the order in which the waiters came
	least  int                // in the order of work
	line   *line              // of its client; nil where it does not wait any more
	person *person
	spot   queue.Node[waiter] // and its position there
}
