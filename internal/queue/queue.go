// Package queue has two queues that any item may leave: Ranked, by rank, and Listed, in the order of joining. An item
// has its position in a field of its own, so that nothing is allocated to find it.
//
// A queue is not safe for concurrent use.
package queue

// A Ranked queue is a heap. Make it with NewRanked.
type Ranked[T any] struct {
	items    []*T
	before   func(a, b *T) bool
	position func(*T) *int
}

// NewRanked returns an empty queue. position returns where an item has its position, which is 0 while it is in no
// queue.
func NewRanked[T any](before func(a, b *T) bool, position func(*T) *int) Ranked[T] {
	return Ranked[T]{before: before, position: position}
}

// Items returns all items as a heap: the one at i goes before those at 2i+1 and 2i+2. They must not be changed.
func (r *Ranked[T]) Items() []*T { return r.items }

// Len is how many there are.
func (r *Ranked[T]) Len() int { return len(r.items) }

// First returns the item that goes before all others, or nil.
func (r *Ranked[T]) First() *T {
	if len(r.items) == 0 {
		return nil
	}
	return r.items[0]
}

// Add adds an item that is not there.
func (r *Ranked[T]) Add(x *T) {
	r.items = append(r.items, x)
	r.settle(x, len(r.items)-1)
}

// Fix moves an item whose rank has changed.
func (r *Ranked[T]) Fix(x *T) { r.settle(x, *r.position(x)-1) }

// Remove takes an item out. It does nothing for one that is not there.
func (r *Ranked[T]) Remove(x *T) {
	i, end := *r.position(x)-1, len(r.items)-1
	if i < 0 {
		return
	}
	last := r.items[end]
	r.items[end] = nil
	r.items = r.items[:end]
	if *r.position(x) = 0; last != x {
		r.settle(last, i)
	}
}

// settle puts an item where it belongs, beginning at an index that is free or its own.
func (r *Ranked[T]) settle(x *T, i int) {
	for i > 0 && r.before(x, r.items[(i-1)/2]) {
		r.put(r.items[(i-1)/2], i)
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child+1 < len(r.items) && r.before(r.items[child+1], r.items[child]) {
			child++
		}
		if child >= len(r.items) || !r.before(r.items[child], x) {
			r.put(x, i)
			return
		}
		r.put(r.items[child], i)
		i = child
	}
}

func (r *Ranked[T]) put(x *T, i int) {
	r.items[i] = x
	*r.position(x) = i + 1
}

// A Listed queue keeps items in the order in which they joined. The zero value is empty.
type Listed[T any] struct{ head, tail *Node[T] }

// A Node is a position in a Listed queue, and a part of the item that stands there.
type Node[T any] struct {
	prev, next *Node[T]
	of         *T
}

// First returns the item that joined first, or nil.
func (q *Listed[T]) First() *T { return q.head.item() }

// Last returns the item that joined last, or nil.
func (q *Listed[T]) Last() *T { return q.tail.item() }

// Next returns the item behind a node, or nil.
func (n *Node[T]) Next() *T { return n.next.item() }

func (n *Node[T]) item() *T {
	if n == nil {
		return nil
	}
	return n.of
}

// Add puts an item at the end, by a node of it that is in no queue.
func (q *Listed[T]) Add(n *Node[T], of *T) {
	n.of, n.prev, n.next = of, q.tail, nil
	if q.tail == nil {
		q.head = n
	} else {
		q.tail.next = n
	}
	q.tail = n
}

// Remove takes an item out, by its node.
func (q *Listed[T]) Remove(n *Node[T]) {
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
