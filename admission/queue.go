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

// A waiter is an event that is held.
type waiter struct {
	lane    lane
	state   waiterState
	round   uint8   // pool: held or called
	index   int     // stamped: among those who go first
	worst   int     // stamped: among those who go last
	begins  float64 // stamped: and so do those after it of the same client
	reaches float64 // stamped: where time stands when it is let in, unless that is later
	due     float64 // stamped: the smallest goes first
	seq     uint64  // among equals, the first to come
	since   int64   // when it began to wait
	client  client
	turn    *weir.Turn
	place   tenancy            // once it has been let in
	age     queue.Node[waiter] // in the order in which the waiters came
	line    *line              // pool: of its client
	spot    queue.Node[waiter] // and its position there
}

type waiterState uint8

const (
	held waiterState = iota
	letIn
	gone
)

func sooner(a, b *waiter) bool { return a.due < b.due || a.due == b.due && a.seq < b.seq }
