package admission

import "weir"

// A lane is one of the two ways to the upstream.
type lane uint8

const (
	pool    lane = iota // without a stamp
	stamped             // those who paid
	lanes
)

// A waiter is an event that is held.
type waiter struct {
	lane   lane
	state  waiterState
	round  uint8   // pool: held or called
	index  int     // stamped: among those who go first
	worst  int     // stamped: among those who go last
	begins float64 // stamped: and so do those after it of the same client
	due    float64 // stamped: the smallest goes first
	seq    uint64  // among equals, the first to come
	since  int64   // when it began to wait
	client client
	turn   *weir.Turn
	place  tenancy      // once it has been let in
	age    node[waiter] // in the order in which the waiters came
	line   *line        // pool: of its client
	spot   node[waiter] // and its position there
}

type waiterState uint8

const (
	held waiterState = iota
	letIn
	gone
)

// A ranking is a heap for container/heap whose items know their positions in it, so that any of them may leave.
type ranking[T any] struct {
	items    []*T
	before   func(a, b *T) bool
	position func(*T) *int
}

// first is the item that goes before all others. There must be one.
func (r *ranking[T]) first() *T { return r.items[0] }

func (r *ranking[T]) Len() int           { return len(r.items) }
func (r *ranking[T]) Less(i, j int) bool { return r.before(r.items[i], r.items[j]) }
func (r *ranking[T]) Swap(i, j int) {
	r.items[i], r.items[j] = r.items[j], r.items[i]
	*r.position(r.items[i]), *r.position(r.items[j]) = i, j
}

func (r *ranking[T]) Push(x any) {
	*r.position(x.(*T)) = len(r.items)
	r.items = append(r.items, x.(*T))
}

func (r *ranking[T]) Pop() any {
	last := len(r.items) - 1
	x := r.items[last]
	r.items[last] = nil
	r.items = r.items[:last]
	return x
}

func sooner(a, b *waiter) bool { return a.due < b.due || a.due == b.due && a.seq < b.seq }

// A queue keeps things in the order in which they joined; any of them may leave. The zero value is empty.
type queue[T any] struct{ head, tail *node[T] }

// A node is a position in a queue, and part of what stands there.
type node[T any] struct {
	prev, next *node[T]
	of         *T
}

func (q *queue[T]) first() *T {
	if q.head == nil {
		return nil
	}
	return q.head.of
}

func (q *queue[T]) last() *T {
	if q.tail == nil {
		return nil
	}
	return q.tail.of
}

func (q *queue[T]) push(n *node[T], of *T) {
	n.of, n.prev, n.next = of, q.tail, nil
	if q.tail == nil {
		q.head = n
	} else {
		q.tail.next = n
	}
	q.tail = n
}

func (q *queue[T]) remove(n *node[T]) {
	if n.prev == nil {
		q.head = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		q.tail = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
}
