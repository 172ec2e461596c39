package authgate

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"weir"
	"weir/gate"
	"weir/gate/refusal"
	"weir/identify"
	"weir/policy"
)

// gateName stands for the gate itself where an answer names a throttle.
const gateName = "gate"

// A visit is one question on its way through the gate. Visits are reused, so that an answer leaves little garbage.
type visit struct {
	gate     *Gate
	setup    *setup
	w        http.ResponseWriter
	r        *http.Request
	dialect  Dialect
	answered bool
	held     time.Duration // for a turn

	asked   original
	request http.Request // the request that is asked about, in which its account is found
	url     url.URL
	event   weir.Event
	parts   []weir.Part // the memory of the event's
	pass    policy.Pass
}

// ServeHTTP answers one question. It may be called without a listener, for tests and for embedding.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := g.visits.Get().(*visit)
	v.gate, v.setup, v.w, v.r, v.dialect = g, g.Setup.Load(), w, r, HAProxy
	g.UnderWay.Add(1)
	defer g.UnderWay.Add(-1)
	defer v.end()
	v.leaveBody()
	peer, ok := v.peer()
	if !ok {
		g.env.Observer.Bounded(BoundStranger)
		g.Warn(&g.strange, "a question came from an address that is not a trusted proxy", slog.String("peer", r.RemoteAddr))
		v.problem(http.StatusForbidden, "Only a trusted proxy may ask here.")
		return
	}
	if !v.understand(peer) {
		return
	}
	who, n := gate.WhoAt(v.event.Source), v.setup.opts.Bounds.Requests
	if !g.requests.Enter(who, n) {
		v.refuseAtBound(BoundRequests, "requests", n)
		return
	}
	defer g.requests.Leave(who)
	v.judge()
}

// end puts the visit back into the pool. A panic of a throttle becomes a refusal, and other questions go on.
func (v *visit) end() {
	g := v.gate
	if failure := recover(); failure != nil {
		if failure == http.ErrAbortHandler {
			panic(failure)
		}
		g.Panicked("a panic while answering a question", failure)
		v.pass.Settle(weir.Outcome{Time: v.event.Time}) // gives back what throttles before the failing one have taken
		if v.answered {
			panic(http.ErrAbortHandler)
		}
		v.refuse(&weir.Answer{Verdict: weir.Refuse, Reason: weir.Failure, Figure: weir.Figure{By: gateName}})
		return // the visit may be broken, and is not reused
	}
	pass := &v.pass
	pass.Answer.Clear()
	clear(v.parts)
	v.gate, v.setup, v.w, v.r, v.answered, v.held = nil, nil, nil, nil, false, 0
	v.asked, v.request, v.url, v.event = original{}, http.Request{}, url.URL{}, weir.Event{}
	g.visits.Put(v)
}

// peer returns the address that asks, and whether it may.
func (v *visit) peer() (netip.Addr, bool) {
	if v.setup.socket {
		return onSocket, true
	}
	from, err := netip.ParseAddrPort(v.r.RemoteAddr)
	return from.Addr(), err == nil && v.setup.proxies.Trusts(from.Addr())
}

// leaveBody keeps a body, which is not needed, from holding anything up. A body may be announced and never come. The
// next request on the connection would be taken for it, so the connection ends with the answer.
func (v *visit) leaveBody() {
	if v.r.ContentLength == 0 {
		return
	}
	v.w.Header().Set("Connection", "close")
	rc := http.NewResponseController(v.w)
	_ = rc.EnableFullDuplex() // the answer does not wait for the body
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime))
}

// bodyTime is how long a connection that ends stays open for the rest of a body, so that the client can read the
// answer.
const bodyTime = 5 * time.Second

// understand makes an event of the question. If that cannot be done, it answers the question and reports false.
func (v *visit) understand(peer netip.Addr) bool {
	s, h := v.setup, v.r.Header
	var err error
	if v.dialect, err = s.dialect(h); err == nil {
		err = v.asked.read(v.dialect, peer, &s.proxies, h)
	}
	if err != nil {
		v.gate.env.Observer.Bounded(BoundMalformed)
		v.gate.Warn(&v.gate.malformed, "a question cannot be answered", slog.Any("why", err),
			slog.String("peer", v.r.RemoteAddr))
		v.problem(http.StatusBadRequest, refusal.Sentence(err))
		return false
	}
	o := &v.asked
	v.event = weir.Event{Time: v.gate.env.Clock.Now(), Kind: "http", Source: o.source, SourceUnknown: o.broken,
		ID: saneID(h["X-Request-Id"]), Agent: v.r.UserAgent(), Route: identify.Route(o.method, o.host, o.raw, h)}
	v.url = url.URL{Path: o.path, RawPath: o.raw, RawQuery: o.query}
	v.request.Method, v.request.Host, v.request.URL, v.request.Header = o.method, o.host, &v.url, h
	if v.event.Account, err = s.accounts.Account(&v.request, o.source); err == nil {
		v.parts, err = s.accounts.PartsOf(v.parts[:0], &v.request)
		v.event.Parts = v.parts
	}
	if err != nil {
		v.gate.env.Observer.Bounded(BoundAccount)
		v.problem(http.StatusBadRequest, refusal.Sentence(err))
		return false
	}
	return true
}

// judge puts the event before the chain, waits where it must, and answers.
func (v *visit) judge() {
	g, a := v.gate, &v.pass.Answer
	v.setup.chain.Judge(v.r.Context(), &v.event, &v.pass)
	if a.Verdict == weir.Wait && !v.wait() {
		return
	}
	now := v.event.Time.Add(v.held)
	if a.Verdict == weir.Admit {
		// The gate does not learn what becomes of the request.
		v.pass.Settle(weir.Outcome{Time: now, Done: true})
		v.admit(now)
		return
	}
	v.pass.Settle(weir.Outcome{Time: now})
	if a.Ban {
		v.named()
		g.env.Offend(&v.event, a)
	}
	v.refuse(a)
}

// wait holds the answer back until the turn comes or is called off. It reports false when the question has been
// answered already, or the client has left.
func (v *visit) wait() bool {
	g, a, now := v.gate, &v.pass.Answer, v.gate.env.Clock.Now
	most := v.setup.opts.MaxWait.Std()
	if a.Until.Sub(v.event.Time) > most {
		v.tooLong()
		return true
	}
	who, bound := gate.WhoAt(v.event.Source), v.setup.opts.Bounds.Waiting
	if !g.waiting.Enter(who, bound) {
		v.pass.Settle(weir.Outcome{Time: now()})
		v.refuseAtBound(BoundWaiting, "waiting requests", bound)
		return false
	}
	defer g.waiting.Leave(who)
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	timer := g.env.Clock.AfterFunc(most, cancel)
	defer timer.Stop()
	g.env.Observer.Waiting(1)
	defer g.env.Observer.Waiting(-1)
	for a.Verdict == weir.Wait {
		if v.pass.Await(ctx, now) == nil {
			continue
		}
		if v.r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the proxy has left, or a stop cuts off what is under way
		}
		v.tooLong()
	}
	v.held = now().Sub(v.event.Time)
	return true
}

// tooLong refuses an event whose wait is longer than max_wait.
func (v *visit) tooLong() {
	v.pass.Answer.Verdict, v.pass.Answer.Reason = weir.Refuse, weir.WaitTooLong
}

// refuseAtBound refuses a question because a bound of the gate is reached.
func (v *visit) refuseAtBound(bound, unit string, limit int) {
	v.gate.env.Observer.Bounded(bound)
	v.refuse(&weir.Answer{Verdict: weir.Refuse, Reason: weir.Overload,
		Figure: weir.Figure{By: gateName, Rule: "bounds." + bound, Unit: unit, Limit: int64(limit)}})
}
