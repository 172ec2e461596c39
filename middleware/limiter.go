package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/gate/refusal"
	"weir/identify"
	"weir/internal/clock"
	"weir/internal/pacer"
	"weir/policy"
)

// Errors of New.
var (
	ErrVolume = errors.New("a throttle limits bytes, which only a gate can count: use weir's HTTP gate for it")
	ErrBoth   = errors.New("both a chain and single throttles are given: put the throttles into the chain")
	ErrPlaces = errors.New("an account is looked for in a token, which nobody verifies here: set Identify instead")
)

// DefaultWaiting is how many requests may wait at once unless Options say something else.
const DefaultWaiting = 10_000

// Options say what limits requests, and how a Limiter knows who sends them.
type Options struct {
	// The throttles, in order, with names, shadow and what their failures mean.
	Chain *policy.Chain
	// The throttles, in order, where a Chain is too much. They are called throttle-1 and so on, and refuse when they
	// fail.
	Throttles []weir.Throttle
	// Where the account of a request is looked for, as in the option account of an HTTP gate: header:NAME, bearer,
	// query:NAME, cookie:NAME, path:N, source, cert or cert:san. In gRPC, metadata are the headers.
	Account []string
	// What happens to a request that names different accounts in different places. Default: it is refused.
	AccountConflict identify.Conflict
	// Proxies in front of the program, whose forwarding header is believed. Default: none.
	TrustedProxies []netip.Prefix
	// Which header the trusted proxies maintain. Default X-Forwarded-For.
	ForwardedHeader identify.Header
	// Identify, which may be nil, changes what is known about a request before it is judged: the account of a session
	// that the program verified, its plan, what it costs, its id. The context is that of the request. An error refuses
	// it with the status 400 and the error's text, which the client sees.
	Identify func(ctx context.Context, ev *weir.Event) error
	// Offend, which may be nil, is told of clients that belong on a block list.
	Offend func(ev *weir.Event, a *weir.Answer)
	// How many requests may wait at once. One more is refused with the status 503. Default 10000; negative for none.
	MaxWaiting int
}

// A Limiter asks throttles about requests. It is safe for concurrent use and does not change.
type Limiter struct {
	opts     Options
	chain    *policy.Chain
	accounts identify.Accounts
	proxies  identify.Proxies
	clock    clock.Clock
	waiting  atomic.Int64
	// the header of answers that says what requests cost; empty where no throttle looks at it
	costHeader string
	visits     sync.Pool // of *visit
}

// New returns a Limiter. Throttles in which requests wait are moved by it from now on.
func New(o Options) (*Limiter, error) { return newLimiter(o, clock.System) }

func newLimiter(o Options, c clock.Clock) (*Limiter, error) {
	o.MaxWaiting = cmp.Or(o.MaxWaiting, DefaultWaiting)
	l := &Limiter{opts: o, chain: o.Chain, clock: c}
	l.visits.New = func() any { return new(visit) }
	if o.Chain != nil && len(o.Throttles) > 0 {
		return nil, ErrBoth
	}
	if o.Chain == nil {
		var links []*policy.Link
		for i, t := range o.Throttles {
			links = append(links, policy.NewLink(fmt.Sprintf("throttle-%d", i+1), t, policy.Closed))
		}
		var err error
		if l.chain, err = policy.New(links, nil); err != nil {
			return nil, err
		}
	}
	l.costHeader = l.chain.CostHeader()
	if l.chain.Rations() {
		return nil, ErrVolume
	}
	accounts, err := identify.ParseAccounts(o.Account)
	if err != nil {
		return nil, weir.Under("account", err)
	}
	if accounts, err = accounts.WithParts(l.chain.KeyParts()); err != nil {
		return nil, err
	}
	if len(accounts.Claims()) > 0 {
		return nil, ErrPlaces
	}
	var v weir.Mistakes
	conflict := cmp.Or(o.AccountConflict, identify.ConflictRefuse)
	conflict.Validate(&v, &accounts)
	header := cmp.Or(o.ForwardedHeader, identify.XForwardedFor)
	v.OneOf("forwarded_header", string(header), string(identify.XForwardedFor), string(identify.ForwardedHeader))
	if err := v.Err(); err != nil {
		return nil, err
	}
	l.accounts, l.proxies = accounts.By(conflict, ""), identify.NewProxies(o.TrustedProxies, header)
	pace := &pacer.Pace{Clock: c}
	for _, link := range l.chain.Links() {
		if t, ok := link.Throttle.(weir.Clocked); ok {
			pace.Start(t)
		}
	}
	return l, nil
}

// A visit is one request before the throttles. Visits are reused, so that a decision leaves no garbage.
type visit struct {
	event weir.Event
	parts []weir.Part // the memory of the event's
	pass  policy.Pass
}

// recycle makes a visit ready for the next request.
func (l *Limiter) recycle(v *visit) {
	v.pass.Answer.Clear()
	v.event = weir.Event{}
	clear(v.parts)
	l.visits.Put(v)
}

// identify says who sent a request and what it is about.
func (l *Limiter) identify(ctx context.Context, r *http.Request, peer netip.Addr, v *visit) error {
	ev := &v.event
	origin := l.proxies.Source(peer, r.Header)
	ev.Time, ev.Kind = l.clock.Now(), "http"
	ev.Source, ev.SourceUnknown = origin.Addr, origin.Unknown
	ev.Route = identify.Route(r.Method, r.Host, identify.Escaped(r.URL), r.Header)
	ev.Agent = r.UserAgent()
	var err error
	if ev.Account, err = l.accounts.Account(r, origin.Addr); err == nil {
		v.parts, err = l.accounts.PartsOf(v.parts[:0], r)
		ev.Parts = v.parts
	}
	if err == nil && l.opts.Identify != nil {
		err = l.opts.Identify(ctx, ev)
	}
	return err
}

// judge asks the throttles and waits if it must. It returns the context's error if that ends while the request waits,
// and nothing is held then. The verdict is in the visit, and is never Wait.
func (l *Limiter) judge(ctx context.Context, v *visit) (err error) {
	judged := false
	defer func() {
		if !judged { // a throttle panicked: what those before it took is given back
			v.pass.Settle(weir.Outcome{Time: v.event.Time})
		}
	}()
	l.chain.Judge(ctx, &v.event, &v.pass)
	a := &v.pass.Answer
	if a.Verdict == weir.Wait {
		if err = l.wait(ctx, v); err == nil && a.Verdict == weir.Admit {
			v.pass.Away(l.clock.Now())
		}
	}
	judged = true
	if a.Ban && l.opts.Offend != nil {
		l.opts.Offend(&v.event, a)
	}
	return err
}

// wait holds a request until its turn comes, it is refused or its context ends.
func (l *Limiter) wait(ctx context.Context, v *visit) error {
	a, bound := &v.pass.Answer, max(int64(l.opts.MaxWaiting), 0)
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > bound {
		v.pass.Settle(weir.Outcome{Time: l.clock.Now()})
		*a = weir.Answer{Verdict: weir.Refuse, Reason: weir.Overload, Figures: a.Figures,
			Figure: weir.Figure{By: "middleware", Rule: "max_waiting", Unit: "waiting requests", Limit: bound}}
		return nil
	}
	for a.Verdict == weir.Wait {
		if err := v.pass.Await(ctx, l.clock.Now); err != nil {
			a.Verdict, a.Reason = weir.Refuse, weir.WaitTooLong
			return err
		}
	}
	return nil
}

// refusal is what a client is told that does not go on.
func (l *Limiter) refusal(v *visit, now time.Time) (doc refusal.Refusal) {
	a := &v.pass.Answer
	if a.Verdict == weir.Challenge {
		doc = refusal.OfUnpayable(a, now)
	} else {
		doc = refusal.Of(a, now, l.chain.ByStampTaker(a) || l.chain.ByLanes(a))
	}
	doc.RequestID = v.event.ID
	return doc
}

// misfit is what a client is told whose account cannot be found out.
func misfit(v *visit, err error) refusal.Refusal {
	doc := refusal.Problem(http.StatusBadRequest, refusal.Sentence(err))
	doc.RequestID = v.event.ID
	return doc
}
