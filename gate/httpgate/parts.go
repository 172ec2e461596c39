package httpgate

import (
	"net/http"
	"sync"

	"weir"
	"weir/gate/refusal"
	"weir/identify"
	"weir/internal/words"
	"weir/policy"
)

// partLists are the memory of events' parts.
var partLists = sync.Pool{New: func() any { return new([]weir.Part) }}

// findParts puts into the event what keys of limits are made of. It reports false for a request that can be read in
// several ways, which has been answered.
func (x *exchange) findParts(said identify.Claims) bool {
	if !x.setup.keyed {
		return true
	}
	x.parts = partLists.Get().(*[]weir.Part)
	found, rewrite, err := x.setup.accounts.Parts((*x.parts)[:0], x.r, x.fields, said)
	*x.parts, x.event.Parts = found, found
	x.cookies = x.cookies || rewrite
	if err == nil {
		return true
	}
	x.gate.env.Observer.Bounded(BoundAccount)
	x.problem(http.StatusBadRequest, words.Text(refusal.Sentence(err)))
	return false
}

// freeParts gives the memory of the parts back when nobody looks at the event any more.
func (x *exchange) freeParts() {
	if x.parts == nil {
		return
	}
	clear(*x.parts)
	partLists.Put(x.parts)
	x.parts, x.event.Parts = nil, nil
}

// seePrice notes what the headers of the upstream's answer say that the request has cost. What is no number counts as
// nothing said.
func (x *exchange) seePrice(h identify.Fields) {
	name := x.setup.costHeader
	if name == "" {
		return
	}
	x.price.Known = weir.Unpriced
	values := h.Values(name)
	if len(values) == 0 {
		return
	}
	if x.price = policy.PriceOf(values); x.price.Known != weir.Priced {
		x.gate.env.Observer.Bounded(BoundCost)
	}
}

// finalPrice is what is known of the price in the end.
func (x *exchange) finalPrice() weir.Price {
	if x.setup.costHeader != "" && x.price.Known == weir.Unseen {
		return weir.Price{Known: weir.Unanswered}
	}
	return x.price
}
