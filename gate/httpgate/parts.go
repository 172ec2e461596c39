package httpgate

import (
	"net/http"
	"sync"

	"weir"
	"weir/gate/refusal"
	"weir/identify"
	"weir/internal/words"
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
