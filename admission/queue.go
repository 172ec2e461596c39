package admission

import (
	"container/heap"

	"weir"
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
	lane   lane
	state  waiterState
	index  int    // in the heap of its lane
	key    uint64 // the smallest goes first
	seq    uint64 // among equals, the first to come
	since  int64  // when it began to wait
	at     int64  // when it was let in
	client client
	turn   *weir.Turn
	age    node[waiter] // in the order in which the waiters of the lane came
}

type waiterState uint8

const (
	held waiterState = iota
	letIn
	gone
)

// A hall is where those of one lane wait.
type hall struct {
	next  waiterHeap    // who goes first
	order queue[waiter] // who came first, and so whose time is over first
}

func (h *hall) len() int { return len(h.next) }

// oldest is who has waited longest; nil when nobody waits.
func (h *hall) oldest() *waiter { return h.order.first() }

func (h *hall) join(w *waiter) {
	heap.Push(&h.next, w)
	h.order.push(&w.age, w)
}

func (h *hall) leave(w *waiter) {
	heap.Remove(&h.next, w.index)
	h.order.remove(&w.age)
}

type waiterHeap []*waiter

func (h waiterHeap) Len() int { return len(h) }
func (h waiterHeap) Less(i, j int) bool {
	return h[i].key < h[j].key || h[i].key == h[j].key && h[i].seq < h[j].seq
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
