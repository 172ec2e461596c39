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
	spot   node[waiter] // and its place there
}

type waiterState uint8

const (
	held waiterState = iota
	letIn
	gone
)

type waiterHeap []*waiter

func (h waiterHeap) Len() int { return len(h) }
func (h waiterHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].seq < h[j].seq
}
func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waiterHeap) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}

func (h *waiterHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return w
}

// A worstHeap has first who goes last.
type worstHeap []*waiter

func (h worstHeap) Len() int           { return len(h) }
func (h worstHeap) Less(i, j int) bool { return waiterHeap(h).Less(j, i) }
func (h worstHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].worst, h[j].worst = i, j
}

func (h *worstHeap) Push(x any) {
	w := x.(*waiter)
	w.worst = len(*h)
	*h = append(*h, w)
}

func (h *worstHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return w
}

// A queue keeps things in the order in which they joined; any of them may leave. The zero value is empty.
type queue[T any] struct{ head, tail *node[T] }

// A node is a place in a queue, and part of what stands there.
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
