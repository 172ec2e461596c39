package admission

import "math"

// A claim is what one node has, and what it could use.
type claim struct {
	wants float64
	used  int
	part  int
	left  float64 // of its part, when that is rounded down
}

// divide shares places among nodes by what they could use, at least one each. All nodes that know the same get the same
// result, so that the parts together are the places, unless there are more nodes than places.
//
// What nobody wants is shared alike: a node that had nothing to do has places when somebody comes. While more is wanted
// than there is, only the one place is kept for it.
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
	// Those who would get less than one get one, and the others share the rest.
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
	// Places are whole. Those who lost most by that get what is left.
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

// grant is how many places a node may have now: its part, less its share of what others still use beyond theirs. They
// let nobody in until that is done with, and all nodes together keep within the places.
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
