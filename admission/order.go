package admission

// An order is the line of the waiting room, sorted by number. To join, to leave and to count those ahead take
// logarithmic time. It is a treap: a search tree that random weights keep in balance. The zero value is empty.
type order struct{ root *entry }

func (o *order) len() int { return o.root.count() }

// count is how many entries the tree below an entry has, with the entry itself.
func (p *entry) count() int {
	if p == nil {
		return 0
	}
	return p.size
}

// first returns the entry with the smallest number, or nil.
func (o *order) first() *entry {
	p := o.root
	for p != nil && p.left != nil {
		p = p.left
	}
	return p
}

// ahead is how many entries have a smaller number.
func (o *order) ahead(number uint64) (n int) {
	for p := o.root; p != nil; {
		if number <= p.number {
			p = p.left
			continue
		}
		n += p.left.count() + 1
		p = p.right
	}
	return n
}

// add puts an entry in line. No other entry may have its number.
func (o *order) add(p *entry) {
	p.left, p.right, p.size = nil, nil, 1
	o.root = o.root.insert(p)
}

func (o *order) remove(p *entry) {
	o.root = o.root.without(p)
	p.left, p.right, p.size = nil, nil, 0
}

func (t *entry) insert(p *entry) *entry {
	switch {
	case t == nil:
		return p
	case p.weight > t.weight:
		p.left, p.right = t.split(p.number)
		return p.resize()
	case p.number < t.number:
		t.left = t.left.insert(p)
	default:
		t.right = t.right.insert(p)
	}
	return t.resize()
}

func (t *entry) without(p *entry) *entry {
	switch {
	case t == p:
		return merge(t.left, t.right)
	case p.number < t.number:
		t.left = t.left.without(p)
	default:
		t.right = t.right.without(p)
	}
	return t.resize()
}

// split separates the entries with smaller numbers from the others.
func (t *entry) split(number uint64) (before, after *entry) {
	if t == nil {
		return nil, nil
	}
	if t.number < number {
		t.right, after = t.right.split(number)
		return t.resize(), after
	}
	before, t.left = t.left.split(number)
	return before, t.resize()
}

// merge joins two trees. All numbers of the first are smaller than those of the second.
func merge(before, after *entry) *entry {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	case before.weight > after.weight:
		before.right = merge(before.right, after)
		return before.resize()
	default:
		after.left = merge(before, after.left)
		return after.resize()
	}
}

func (t *entry) resize() *entry {
	t.size = t.left.count() + t.right.count() + 1
	return t
}
