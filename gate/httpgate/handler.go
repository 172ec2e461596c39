package httpgate

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"

	"golang.org/x/net/http/httpguts"

	"weir"
	"weir/gate"
	"weir/gate/httpgate/pages"
	"weir/gate/refusal"
	"weir/identify"
	"weir/internal/http1"
	"weir/internal/words"
	behind "weir/upstream"
)

// gateName stands for the gate itself where an answer names a throttle.
const gateName = "gate"

// statusLeft is what the log shows for a client that left before it was answered. No client ever sees it.
const statusLeft = 499

// ServeHTTP takes one request through the gate. It may be called without a listener, for tests and for embedding. A
// client that leaves with its body unread is then noticed late.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := exchanges.Get().(*exchange)
	x.gate, x.setup, x.w, x.r, x.conn, x.ctx = g, g.Setup.Load(), w, r, connOf(r.Context()), r.Context()
	if x.reply, _ = w.(*reply); x.reply != nil {
		x.fields = x.reply.fields
	} else {
		if x.own == nil {
			x.own = new(http1.Fields)
		}
		x.fields = x.own
		x.own.AddHeader(r.Header)
	}
	x.event.Time, x.event.Kind = g.env.Clock.Now(), "http"
	if x.conn != nil && x.conn.state != nil {
		r.TLS = x.conn.state // net/http does not know of it
	}
	if r.ContentLength == 0 {
		r.Body = http.NoBody // HTTP/2 has a reader even where there is nothing to read
	}
	x.bodied = r.Body != nil && r.Body != http.NoBody
	if r.ProtoMajor >= 2 {
		x.watchStream()
	}
	g.UnderWay.Add(1)
	g.env.Observer.InFlight(1)
	defer x.end()
	x.identify()
	x.beginTrace()
	if x.setup.stamps && g.assets.Serve(x, x.full()) { // free: without them nobody could pay
		x.answered = true
		return
	}
	if r.TLS == nil && x.proof() {
		return
	}
	x.who = gate.WhoAt(x.origin.Addr)
	n := x.setup.opts.Bounds.Requests
	if x.counted = g.requests.Enter(x.who, n); !x.counted {
		x.refuseAtBound(BoundRequests, "requests", int64(n))
		return
	}
	if x.misfit() || !x.judge() {
		return
	}
	x.onward = g.env.Clock.Now()
	x.reached = true
	if x.setup.route == nil || !x.answerRoute() {
		x.forward()
	}
}

// end settles and counts the exchange, whatever happened to it.
func (x *exchange) end() {
	g := x.gate
	failure := recover()
	aborted := failure == http.ErrAbortHandler
	if failure != nil && !aborted {
		g.Panicked("a request ended in a panic", failure, slog.String("id", x.event.ID))
		failure = http.ErrAbortHandler
	}
	x.unwatch()
	x.endStream()
	if x.early > 0 {
		g.bodies.free(x.early)
	}
	x.timed = x.timed && !x.late.Stop()
	x.mu.Lock()
	x.limitEnd()
	x.over = true
	x.mu.Unlock()
	now := g.env.Clock.Now()
	if x.judged {
		// What never reached the upstream is given back.
		x.pass.Settle(weir.Outcome{Time: now, Done: x.reached, Status: x.replied, Price: x.finalPrice()})
		if !x.reached {
			x.event.Purse.Refund()
			if x.event.Place.Called {
				x.setup.lanes.Refund(x.event.Place.Number)
			}
		}
	}
	left := x.ctx.Err() != nil || x.writeErr != nil
	if x.cancel != nil {
		x.cancel(nil)
	}
	if x.status == 0 && aborted && left {
		x.status = statusLeft
	}
	if aborted && !left && x.reached && x.bodyErr.Load() == nil && !x.lost.Load() && g.mayLog("the upstream broke off", now) {
		g.env.Log.Warn("the upstream broke off in the middle of its response", "id", x.event.ID, "host",
			x.event.Route.Host, "path", x.event.Route.Path)
	}
	if x.onward.IsZero() {
		x.onward = now
	}
	g.env.Observer.Served(x.pass.Answer.Verdict, x.status, x.onward.Sub(x.event.Time), now.Sub(x.event.Time))
	x.setup.route.served(x.pass.Answer.Verdict, x.status)
	x.log(now)
	x.endTrace(now)
	x.freeParts()
	g.env.Observer.InFlight(-1)
	if x.counted {
		g.requests.Leave(x.who)
	}
	g.UnderWay.Add(-1)
	if failure != nil {
		panic(failure)
	}
	x.recycle()
}

// identify fills in the event, except for the account.
func (x *exchange) identify() {
	r := x.r
	if x.conn != nil && x.conn.trusted {
		x.origin = x.setup.proxies.Told(x.peer(), x.fields)
	} else {
		x.origin = x.setup.proxies.Source(x.peer(), x.fields)
	}
	if !x.origin.Proxied {
		x.gate.noteUnlisted(x.peer(), x.fields, x.event.Time)
	}
	id := ""
	if x.origin.Proxied {
		id = saneID(x.fields.Values("X-Request-Id"))
	}
	if id == "" {
		id = newID(x.event.Time)
	}
	x.event.Source, x.event.SourceUnknown = x.origin.Addr, x.origin.Unknown
	x.event.ID = id
	x.event.Route = identify.Route(r.Method, r.Host, identify.Escaped(r.URL), x.fields)
	if x.setup.router != nil {
		x.choose()
	}
	x.known()
}

// peer is the address at the other end of the connection; invalid where there is none.
func (x *exchange) peer() netip.Addr {
	if x.conn != nil {
		return x.conn.peer
	}
	ap, _ := netip.ParseAddrPort(x.r.RemoteAddr)
	return ap.Addr().Unmap()
}

// misfit answers requests that no throttle needs to judge, and reports whether it did.
func (x *exchange) misfit() bool {
	r, o := x.r, &x.setup.opts
	switch {
	case r.Method == http.MethodConnect:
		x.problem(http.StatusMethodNotAllowed, "The gate does not open tunnels.")
	case !x.parsedHere() && !(validHost(r.Host) && validTarget(r.URL) && (r.Host != "" || !r.ProtoAtLeast(1, 1))):
		x.problem(http.StatusBadRequest, "The host of the request is not valid.")
	case r.ProtoMajor >= 2 && !goodPath(r):
		x.problem(http.StatusBadRequest, "The path of the request is not valid.")
	case r.RequestURI == "*":
		x.problem(http.StatusMethodNotAllowed,
			"The gate does not forward requests about the server as a whole.")
	case r.ProtoMajor >= 2 && headSize(r, x.fields) > int64(o.Bounds.Header):
		// For HTTP/1 its reader has checked it.
		x.gate.env.Observer.Bounded(BoundHeader)
		x.problem(http.StatusRequestHeaderFieldsTooLarge, "The headers of the request are too large.")
	case o.Bounds.Body > 0 && r.ContentLength > int64(o.Bounds.Body):
		x.gate.env.Observer.Bounded(BoundBody)
		x.problem(http.StatusRequestEntityTooLarge, "The body of the request is too large.")
	case x.expectsOther():
		x.problem(http.StatusExpectationFailed, "The gate knows no such expectation.")
	case x.hops() >= maxHops:
		x.loop()
	case x.blanks() != nil:
		x.gate.env.Observer.Bounded(BoundMalformed)
		x.problem(http.StatusBadRequest, words.Text(refusal.Sentence(identify.ErrBlankEnds)))
	default:
		var err error
		said := x.claims()
		x.event.Account, x.cookies, err = x.setup.accounts.AccountBy(r, x.fields, x.origin.Addr, said)
		if err == nil {
			return !x.findParts(said)
		}
		x.gate.env.Observer.Bounded(BoundAccount)
		x.problem(http.StatusBadRequest, words.Text(refusal.Sentence(err)))
	}
	return true
}

// expectsOther reports whether the client expects something else than 100 Continue (RFC 9110, 10.1.1).
func (x *exchange) expectsOther() bool {
	expects := x.fields.Values("Expect")
	return len(expects) > 0 && !httpguts.HeaderValuesContainsToken(expects, "100-continue")
}

// loop answers a request that has come around too often.
func (x *exchange) loop() {
	g := x.gate
	g.env.Observer.Bounded(BoundLoop)
	if g.mayLog("loop", g.env.Clock.Now()) {
		g.env.Log.LogAttrs(x.ctx, slog.LevelWarn, "a request comes around in a loop: the service behind the gate leads back to it",
			slog.String("id", x.event.ID), slog.String("host", x.event.Route.Host), slog.String("path", x.event.Route.Path))
	}
	x.problem(http.StatusLoopDetected, "The request comes around in a loop.")
}

// blanks finds what servers read differently because of characters that some of them take for spaces.
func (x *exchange) blanks() error {
	for i := range x.fields.Len() {
		if err := identify.CheckField(x.fields.At(i)); err != nil {
			return err
		}
	}
	return identify.CheckTarget(identify.Escaped(x.r.URL), x.r.URL.RawQuery)
}

// proof answers an authority that comes to see whether a domain belongs to this weir, and reports whether it did.
func (x *exchange) proof() bool {
	text := x.gate.env.Proofs.Answer(x.r)
	if text == nil {
		return false
	}
	x.answered = true
	x.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = x.Write(text)
	return true
}

// claims returns what the request's token says, and takes the plan from there. A token that is not good says nothing.
func (x *exchange) claims() identify.Claims {
	claims, plan, err := x.setup.keys.Claims(x.fields, x.event.Time)
	if err != nil {
		x.gate.env.Observer.Bounded(BoundToken)
		x.gate.env.Log.Debug("a token is not valid", "id", x.event.ID, "error", err)
		x.tokenErr = err
		return nil
	}
	x.event.Plan = plan
	return claims
}

// judge puts the event before the chain and waits if it must. It reports whether the request goes on; if not, it has
// been answered.
func (x *exchange) judge() bool {
	g := x.gate
	x.judged = true
	if x.readsFirst() {
		x.pass.Ready = x.readFirst
	}
	x.setup.chain.Judge(x.ctx, &x.event, x.pass)
	x.metered = x.setup.chain.MetersNow()
	if x.pass.Answer.Verdict == weir.Wait && !x.wait() {
		return false
	}
	a := &x.pass.Answer
	if x.earlyErr != nil {
		x.failedFirst(x.earlyErr)
		return false
	}
	if a.Verdict == weir.Admit {
		return true
	}
	x.onward = g.env.Clock.Now()
	if a.Ban && !pages.FromElsewhere(x.r, x.fields) {
		g.env.Offend(&x.event, a)
	}
	if a.Verdict == weir.Refuse && x.payment != nil && x.dropped() {
		a.Verdict, a.Reason, a.Figure = weir.Challenge, weir.Unpaid,
			weir.Figure{By: x.setup.chain.StampTakerLink().Name, Rule: a.Rule}
	}
	if a.Verdict == weir.Challenge && x.setup.taker != nil {
		x.challenge()
		return false
	}
	// A client that is refused by a limit of its own asks nothing of the upstream.
	if chain := x.setup.chain; x.setup.lanes != nil && (chain.ByStampTaker(a) || chain.ByLanes(a)) {
		x.setup.lanes.TurnedAway(&x.event, x.onward)
	}
	x.refuse(a)
	return false
}

// wait holds the request, its body unread, until its turn comes or it is refused. It reports false when too many wait,
// and the request has been answered.
func (x *exchange) wait() bool {
	g := x.gate
	x.waited, x.waitedBy, x.waitedFor = true, x.pass.Answer.By, x.pass.Answer.Rule
	bound := x.setup.opts.Bounds.Waiting
	if !g.waiting.Enter(x.who, bound) {
		x.pass.Settle(weir.Outcome{Time: g.env.Clock.Now()})
		x.refuseAtBound(BoundWaiting, "waiting requests", int64(bound))
		return false
	}
	defer g.waiting.Leave(x.who)
	g.env.Observer.Waiting(1)
	defer g.env.Observer.Waiting(-1)
	if x.alone() {
		x.breakable()
		x.watchLeaving()
	}
	for x.pass.Answer.Verdict == weir.Wait {
		if err := x.pass.Await(x.ctx, g.env.Clock.Now); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	return true
}

// refuseAtBound refuses a request because of a bound of the gate itself.
func (x *exchange) refuseAtBound(bound, unit string, limit int64) {
	x.gate.env.Observer.Bounded(bound)
	x.onward = x.gate.env.Clock.Now()
	x.refuseOverload(weir.Figure{By: gateName, Rule: "bounds." + bound, Unit: unit, Limit: limit})
}

// refuseOverload refuses a request for a limit that is not the client's. The figures of limits that it met stay.
func (x *exchange) refuseOverload(by weir.Figure) {
	x.pass.Answer = weir.Answer{Verdict: weir.Refuse, Reason: weir.Overload, Figures: x.pass.Answer.Figures, Figure: by}
	x.refuse(&x.pass.Answer)
}

// failed answers a request that could not be passed on, or whose answer did not come.
func (x *exchange) failed(err error) {
	if x.lost.Load() && x.status == 0 {
		x.lostPlace()
		return
	}
	if bodyErr := x.bodyErr.Load(); bodyErr != nil {
		x.failedByClient(*bodyErr)
		return
	}
	if x.ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if mistake, ok := errors.AsType[behind.RequestError](err); ok {
		x.reached = false
		x.problem(http.StatusBadRequest, words.Text(refusal.Sentence(mistake)))
		return
	}
	if none, ok := errors.AsType[*behind.UnavailableError](err); ok {
		x.unavailable(none)
		return
	}
	status, detail := http.StatusBadGateway, words.Text("The answer of the service behind the gate is not valid.")
	if timedOut(err) {
		status, detail = http.StatusGatewayTimeout, "The service behind the gate took too long to answer."
	}
	if failure, ok := errors.AsType[*behind.Error](err); ok && !failure.Reached {
		x.reached = false
		detail = "The service behind the gate cannot be reached."
	}
	if g := x.gate; g.mayLog("the upstream failed", g.env.Clock.Now()) {
		g.env.Log.LogAttrs(x.ctx, slog.LevelWarn, "the upstream failed", slog.String("id", x.event.ID),
			slog.Any("error", err))
	}
	x.problem(status, detail)
}

// failedByClient answers a request whose body could not be read.
func (x *exchange) failedByClient(err error) {
	switch {
	case errors.Is(err, errBodyTooLarge):
		x.gate.env.Observer.Bounded(BoundBody)
		x.problem(http.StatusRequestEntityTooLarge, "The body of the request is too large.")
	case timedOut(err): // the client may still be reading
		x.problem(http.StatusRequestTimeout, "The body of the request did not arrive.")
	case x.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
		panic(http.ErrAbortHandler)
	default:
		x.problem(http.StatusBadRequest, "The body of the request is malformed or incomplete.")
	}
}
