package quota

// A ring is the parts of a sliding window. Every account has one, so it is small: more than 32 bits stand elsewhere.
type ring struct {
	low     [buckets + 1]uint32  // of each part
	changed uint32               // which parts a store does not know of, by their slot
	high    *[buckets + 1]uint32 // nil while every part is below 2^32
}

// at is what was charged in a part.
func (g *ring) at(slot int64) int64 {
	n := int64(g.low[slot])
	if g.high != nil {
		n |= int64(g.high[slot]) << 32
	}
	return n
}

func (g *ring) set(slot, n int64) {
	if g.high == nil && n>>32 != 0 {
		g.high = new([buckets + 1]uint32)
	}
	if g.low[slot] = uint32(n); g.high != nil {
		g.high[slot] = uint32(n >> 32)
	}
}

func (g *ring) copy() *ring {
	c := *g
	c.changed = 1<<len(c.low) - 1
	if g.high != nil {
		high := *g.high
		c.high = &high
	}
	return &c
}

// forget empties all parts and marks those that a store must forget.
func (g *ring) forget() {
	for slot := range int64(buckets + 1) {
		if g.at(slot) != 0 {
			g.changed |= 1 << slot
		}
	}
	*g = ring{changed: g.changed}
}
