package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"weir"
	"weir/internal/http1"
)

// retryStatuses are the answers after which a request may be tried again. Other statuses come from the service itself,
// and would come again.
var retryStatuses = []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
	http.StatusGatewayTimeout}

// MaxMethods is how many methods an operator may allow to come twice.
const MaxMethods = 20

func (o *Retries) validate(v *weir.Mistakes) {
	known := []string{FailConnect, FailBroken, FailTimeout}
	for _, status := range retryStatuses {
		known = append(known, strconv.Itoa(status))
	}
	if o.On != nil && len(o.On) == 0 {
		v.Add("retries.on", "nothing is named after which a request is tried again", "write budget: 0% for no retries")
	}
	for i, what := range o.On {
		at := fmt.Sprintf("retries.on[%d]", i)
		switch {
		case !slices.Contains(known, what):
			v.Add(at, fmt.Sprintf("no request is tried again after %.64q", what), weir.Suggest(what, known...))
		case slices.Contains(o.On[:i], what):
			v.Add(at, fmt.Sprintf("%s is named twice", what), "name each once")
		}
	}
	if v.AtMost("retries.methods", "methods", len(o.Methods), MaxMethods) {
		for i, method := range o.Methods {
			if !http1.IsToken(method) || method == http.MethodConnect {
				v.Add(fmt.Sprintf("retries.methods[%d]", i), fmt.Sprintf("%.64q is not a method that may come twice", method),
					"write POST or PATCH")
			}
		}
	}
	v.Size("retries.body", o.Body, 1, MaxBody)
	v.Size("retries.bodies", o.Bodies, 1, MaxBodies)
}

// conditions say after what a request is tried again.
type conditions struct {
	connect, broken, timeout bool
	statuses                 statusSet
}

func newConditions(o *Retries) (c conditions) {
	if *o.Budget == 0 {
		return c
	}
	c.connect, c.broken, c.timeout = slices.Contains(o.On, FailConnect), slices.Contains(o.On, FailBroken),
		slices.Contains(o.On, FailTimeout)
	for _, status := range retryStatuses {
		c.statuses[status-500] = slices.Contains(o.On, strconv.Itoa(status))
	}
	return c
}

// An end is how a try ended.
type end struct {
	why      string // one of the Fail names; of an answer: FailStatus
	status   int    // of an answer of which nothing has been passed on; else 0
	reached  bool   // the request may have reached the server
	seen     bool   // a part of an answer came, and no more
	consumed bool   // a part of the request's body is gone
	twice    bool   // the request may come twice
}

// allow reports whether a request may be tried again after a try that ended so. Whether there is a server, a budget and
// a body for it are other questions.
func (c *conditions) allow(e end) bool {
	if e.seen || e.consumed || e.reached && !e.twice {
		return false
	}
	switch e.why {
	case FailConnect:
		return c.connect
	case FailTimeout:
		return c.timeout
	case FailStatus:
		return c.statuses.has(e.status)
	case FailBroken:
		return c.broken
	}
	return false
}

// tries are those of one request.
type tries struct {
	pool  *Pool
	all   []*server // those that there were when the request came
	tried uint64    // a bit for each that was tried
	n     int       // how many were made
	again bool      // the next one goes to a server that was tried already
	last  end
	why   error   // of the last try; nil if that was an answer
	at    *server // of the try under way
	probe time.Time
	kept  *keptBody // nil if the body cannot be sent again
}

// enter chooses the server of the next try. A try of a server that was tried already waits for a while.
func (t *tries) enter(ctx context.Context, by Caller) (*server, error) {
	p := t.pool
	c := choice{tried: t.tried, again: t.n > 0, well: t.last.why == FailStatus}
	if t.again {
		if err := t.pause(ctx, by); err != nil {
			return nil, err
		}
		c.tried = 0
	}
	for {
		if len(t.all) == 0 {
			if err := p.await(ctx, by); err != nil {
				return nil, err
			}
			t.all = p.servers()
		}
		s, well := p.pick(t.all, c)
		if s == nil {
			return nil, t.nowhere()
		}
		var ok bool
		if t.probe, ok = s.enter(p, well); !ok {
			continue // another request was quicker
		}
		if t.at = s; t.n > 0 {
			p.env.Observer.Retried(s.to.name)
		}
		t.n++
		return s, nil
	}
}

// nowhere is the error of a request for which there is no server.
func (t *tries) nowhere() error {
	switch {
	case t.n == 0:
		return t.pool.unavailable(t.all)
	case t.why != nil:
		return t.why
	}
	return &Error{Server: t.at.to.name, Why: FailStatus, Reached: true,
		Err: fmt.Errorf("it answered with %d, and no other server can be asked", t.last.status)}
}

// passes reports whether nothing needs to be known about an answer, as is usual.
func (t *tries) passes(status int) bool {
	return !t.at.trouble.Load() && !(t.pool.judges && status >= 500)
}

// answered judges an answer. It reports whether the request is tried again, so that nothing of the answer counts.
func (t *tries) answered(k *Call) bool {
	p, s, status := t.pool, t.at, k.Answer.Status
	if p.bad.has(status) {
		s.failed(p, FailStatus)
	} else if s.trouble.Load() {
		s.answered(p)
	}
	if !p.on.statuses.has(status) {
		return false
	}
	if status == http.StatusServiceUnavailable {
		s.rest(k.Answer.Fields.Get("Retry-After"))
	}
	return t.repeats(k, end{why: FailStatus, status: status, reached: true, consumed: hasBody(k.Request)})
}

// failed judges an error. It reports whether the request is tried again.
func (t *tries) failed(k *Call, err error, by Caller) bool {
	p, s := t.pool, t.at
	failure, ok := errors.AsType[*Error](err)
	if !ok { // of the request itself
		s.undecided(t.probe)
		return false
	}
	if failure.blames(by) {
		p.weigh(t.all, s, false)
		s.failed(p, failure.Why)
	} else {
		s.noted(failure.Why)
		s.undecided(t.probe)
	}
	if failure.Why == FailConnect {
		p.lookAgain(s.to.source)
	}
	reached := failure.Reached
	// What a server may have worked on is not undone because the next one cannot be reached.
	failure.Reached = failure.Reached || t.last.reached
	t.why = failure
	return t.repeats(k, end{why: failure.Why, reached: reached, seen: failure.seen,
		consumed: failure.consumed})
}

// blames reports whether a failure says something about the server, and not about the client that it served: it may
// have hung up on a client that sends its body slowly, and a client may ask for a head that is too large for us.
func (e *Error) blames(by Caller) bool {
	return e.Why == FailConnect || e.Why != FailHeader && (by == nil || by.Received())
}

// repeats reports whether a try that ended so is followed by another one.
func (t *tries) repeats(k *Call, e end) bool {
	p := t.pool
	e.twice = idempotent(k) || slices.Contains(p.opts.Retries.Methods, k.Request.Method)
	if t.kept != nil {
		e.consumed = false // it is asked below
	}
	if t.n > p.opts.Retries.Servers || k.Request.Context().Err() != nil || !p.on.allow(e) {
		return false
	}
	t.tried |= 1 << slices.Index(t.all, t.at)
	reached := e.reached || t.last.reached
	t.last = e
	t.last.reached = reached
	next, _ := p.pick(t.all, choice{tried: t.tried, again: true, well: e.why == FailStatus})
	if t.again = next == nil; t.again {
		next, _ = p.pick(t.all, choice{again: true, well: e.why == FailStatus})
		if next == nil || !p.opts.Retries.Same {
			return false
		}
	}
	// What cannot have arrived costs nothing, unless it goes to the same server.
	if (e.reached || t.again) && !spend(&p.budget) {
		return false
	}
	return t.kept == nil || t.kept.again()
}

// samePause is how long the first try of a server that was tried already waits, at most. Each one waits twice as long
// as the one before.
const samePause = 50 * time.Millisecond

func (t *tries) pause(ctx context.Context, by Caller) error {
	longest := samePause << min(t.n-1, 6)
	over := make(chan struct{})
	timer := t.pool.env.Clock.AfterFunc(longest/2+rand.N(longest/2), func() { close(over) })
	defer timer.Stop()
	if by != nil {
		ctx = by.Waits()
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxRest is how long a server can ask us to be left alone.
const maxRest = time.Hour

// rest notes that a server asked not to be tried again for a while (RFC 9110, 10.2.3). Only further tries go by it:
// what one client is told must not keep others away.
func (s *server) rest(retryAfter string) {
	now := s.env.Clock.Now()
	var d time.Duration
	if seconds, err := strconv.ParseUint(retryAfter, 10, 32); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(retryAfter); err == nil {
		d = at.Sub(now)
	}
	if d > 0 {
		s.resting.Store(now.Add(min(d, maxRest)).UnixNano())
	}
}

func (s *server) rests(now time.Time) bool { return now.UnixNano() < s.resting.Load() }

// discard ends an answer of which nothing is passed on. The connection is kept if all of the answer is there.
func (k *Call) discard() {
	if own, ok := k.Body.(*Body); ok {
		if _, all := own.Buffered(); all {
			_, _ = io.Copy(io.Discard, own)
		}
	}
	_ = k.Body.Close()
	k.Body, k.Trailer, k.Length, k.Close = nil, nil, 0, false
}

// The budget of retries, in millionths of a request: each request adds its share, each retry takes a whole one. It
// starts full, so that a service with few requests has some too.
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

// idempotent reports whether a request may be sent twice (RFC 9110, 9.2.2), by its method or by an idempotency key.
func idempotent(k *Call) bool {
	switch k.Request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return k.Fields.Has("Idempotency-Key") || k.Fields.Has("X-Idempotency-Key")
}
