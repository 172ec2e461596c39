package admission

import "math"

// A claim is one node's claim to places.
type claim struct {
	wants float64 // places that it could use
	used  int     // places that it uses now
	part  int     // places that it gets, see divide
	left  float64 // the fraction of a place that was rounded off its part
}

// divide shares places among nodes in proportion to what they could use, at least one each. It depends on the claims
// alone. So nodes that know the same claims come to the same result, and the parts add up to the places, unless there
// are more nodes than places.
//
// Places that nobody wants are shared equally, so that a node that had nothing to do has places when somebody comes. If
// more places are wanted than there are, such a node has one.
func divide(places int, claims []claim) {
	n := len(claims)
	if n == 0 {
		return
	}
	total := 0.0
	for i := range claims {
		total += claims[i].wants
		claims[i].part = 0
	}
	unwanted := max(0, float64(places)-total) / float64(n)
	weight := func(c *claim) float64 { return c.wants + unwanted }
	// Nodes that would get less than one place get one, and the others share the rest.
	places, total = max(places, n), total+unwanted*float64(n)
	rest, floored := float64(places), 0
	for again := true; again; {
		again = false
		for i := range claims {
			c := &claims[i]
			if w := weight(c); c.part == 0 && (total <= 0 || w*rest/total < 1) {
				c.part, c.left = 1, 0
				total -= w
				rest--
				floored++
				again = true
			}
		}
	}
	given := floored
	for i := range claims {
		if c := &claims[i]; c.part == 0 {
			exact := weight(c) * rest / total
			c.part = int(exact + 1e-9) // a third of three is one, whatever floating point makes of it
			c.left = exact - float64(c.part)
			given += c.part
		}
	}
	// The places that were rounded off go to the nodes that lost most by it.
	for ; given < places; given++ {
		most := &claims[0]
		for i := range claims {
			if claims[i].left > most.left {
				most = &claims[i]
			}
		}
		most.part++
		most.left--
	}
}

// grant is how many places the node own may use now. Nodes that use more than their part let nobody in until they are
// within it. Until then the nodes that have room leave as many places free, each in proportion to its room. So all
// nodes together use no more than the places.
func grant(own int, claims []claim) int {
	over, headroom := 0, 0
	for i := range claims {
		c := &claims[i]
		over += max(0, c.used-c.part)
		headroom += max(0, c.part-c.used)
	}
	c := &claims[own]
	room := max(0, c.part-c.used)
	if over == 0 || room == 0 {
		return c.part
	}
	return max(1, c.part-min(room, int(math.Ceil(float64(over)*float64(room)/float64(headroom)))))
}
