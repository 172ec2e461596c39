package upstream

import (
	"net/http"
	"sync/atomic"
)

// The budget of retries, in millionths of a request: each request adds its share, each retry takes a whole one. A few
// are there from the beginning, so that a service with few requests has some too.
const (
	budgetOne  = 1_000_000
	budgetMost = 10 * budgetOne
)

// earn adds the share of one request.
func (p *Pool) earn() {
	if share := int64(float64(*p.opts.Retries.Budget) * budgetOne); p.budget.Load() < budgetMost {
		p.budget.Add(share)
	}
}

// mayRetry reports whether a failed request may go to another server. What cannot have arrived costs no budget.
func (p *Pool) mayRetry(r *http.Request, e *Error) bool {
	if *p.opts.Retries.Budget == 0 || e.consumed || e.seen {
		return false
	}
	return !e.Reached || idempotent(r) && spend(&p.budget)
}

func spend(budget *atomic.Int64) bool {
	for {
		left := budget.Load()
		if left < budgetOne {
			return false
		}
		if budget.CompareAndSwap(left, left-budgetOne) {
			return true
		}
	}
}

// idempotent reports whether a request may come twice (RFC 9110, 9.2.2), by its method or its sender's word.
func idempotent(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return len(r.Header["Idempotency-Key"]) > 0 || len(r.Header["X-Idempotency-Key"]) > 0
}
