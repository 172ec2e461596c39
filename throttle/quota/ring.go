package quota

// A ring is the parts of a sliding window. Every account has one, so it is small: more than 32 bits stand elsewhere.
// Other windows have an empty one where the other nodes of a farm told something.
type ring struct {
	low     [buckets + 1]uint32 // of each part
	changed uint32              // which parts a store does not know of, by their slot
	untold  uint32              // which parts the other nodes do not know of
	large   bool                // a part is not below 2^32: peers has the rest of it
	peers   *peers              // nil while no other node has told anything
	loan    *loan               // nil where nothing is on loan
}

// at is what was charged in a part.
func (g *ring) at(slot int64) int64 {
	n := int64(g.low[slot])
	if g.large {
		n |= int64(g.peers.high[slot]) << 32
	}
	return n
}

func (g *ring) set(slot, n int64) {
	if !g.large && n>>32 != 0 {
		g.large, g.meet().high = true, new([buckets + 1]uint32)
	}
	if g.low[slot] = uint32(n); g.large {
		g.peers.high[slot] = uint32(n >> 32)
	}
}

func (g *ring) copy() *ring {
	c := *g
	c.changed = 1<<len(c.low) - 1
	c.untold, c.peers, c.loan = c.changed, nil, nil
	if g.large {
		high := *g.peers.high
		c.peers = &peers{high: &high}
	}
	return &c
}

// meet returns the peers of a ring, to be filled in.
func (g *ring) meet() *peers {
	if g.peers == nil {
		g.peers = new(peers)
	}
	return g.peers
}

// forget empties all parts and marks those that a store must forget.
func (g *ring) forget() {
	for slot := range int64(buckets + 1) {
		if g.at(slot) != 0 {
			g.changed |= 1 << slot
		}
	}
	g.empty()
}

// empty empties all parts. What other nodes told that they used is forgotten with them, and not who waits there.
func (g *ring) empty() {
	p := g.peers
	*g = ring{changed: g.changed, untold: 1<<len(g.low) - 1, peers: p}
	if p == nil {
		return
	}
	*p = peers{reset: p.reset, wiped: p.wiped, list: p.list, waiting: p.waiting, told: p.told}
	for i := range p.list {
		e := &p.list[i]
		*e = peer{node: e.node, boot: e.boot, at: e.at, waiting: e.waiting}
	}
}
