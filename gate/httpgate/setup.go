package httpgate

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"weir/admission"
	"weir/gate"
	"weir/gate/httpgate/keys"
	"weir/gate/httpgate/pages"
	"weir/identify"
	"weir/policy"
	behind "weir/upstream"
)

// A setup is everything that a request needs to know of the gate's options. It does not change: a reload replaces it,
// and a request keeps the one that it began with.
type setup struct {
	opts     Options // with defaults
	door     *policy.Door
	chain    *policy.Chain
	taker    policy.StampTaker // nil where no stamps are taken
	lanes    *admission.Lanes  // nil where the capacity is not limited
	clients  *identify.Clients // sign what clients are given
	tickets  *admission.Tickets
	keys     *keys.Keys
	proxies  identify.Proxies
	accounts identify.Accounts
	servers  *behind.Pool // behind the gate; nil where nothing is passed on
	pools    pools        // of the gate and its routes

	of     string  // what the load is called that is measured here
	ticket string  // the cookie for places in line
	stamps bool    // the gate takes stamps, here or at one of its routes
	router *router // nil for a gate without routes, and for a route
	route  *route  // nil for a gate without routes
	at     string  // the path of the route

	keyed      bool   // throttles of the chain count by parts of requests
	costHeader string // of answers, which says what requests cost; empty where nobody looks at it

	headerFrom        []netip.Prefix // of proxies whose connections begin with a PROXY header
	request, response rules          // for headers
}

// newSetup checks the options. Connections and keys that the setup before, if any, has in common with this one are
// kept. routes are the chains of the routes, in order; nil stands for the chain of the gate.
func newSetup(o Options, accept, chain *policy.Chain, routes []*policy.Chain, env Env, before *setup) (*setup,
	error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	s := &setup{proxies: identify.NewProxies(o.TrustedProxies, o.ForwardedHeader), of: o.Listen,
		ticket: pages.TicketCookie}
	if err := s.adopt(o, chain); err != nil {
		return nil, err
	}
	s.stamps = s.taker != nil
	for _, prefix := range o.ProxyProtocol.From {
		s.headerFrom = append(s.headerFrom, identify.PlainPrefix(prefix))
	}
	if accept != nil {
		s.door = policy.NewDoor(accept, s.proxies.Trusts)
	}
	s.sign(env)
	var oldKeys *keys.Keys
	if before != nil {
		oldKeys = before.keys
	}
	var err error
	s.keys, err = keys.New(o.TLS, o.JWT, o.claims(append(routes, chain)...), keys.Env{Clock: env.Clock, Log: env.Log,
		Roots: env.Roots, Data: env.Data, Proofs: env.Proofs,
		Unusable: func() { env.Observer.Bounded(BoundCertificate) }}, oldKeys)
	if err != nil {
		return nil, err
	}
	if err = s.lead(routes, env, before); err != nil {
		s.end(before)
		return nil, err
	}
	return s, nil
}

// adopt takes what routes may have of their own.
func (s *setup) adopt(o Options, chain *policy.Chain) (err error) {
	if chain == nil {
		chain, _ = policy.New(nil, nil)
	}
	s.opts, s.chain, s.taker, s.lanes = o, chain, chain.StampTaker(), nil
	if link := chain.LanesLink(); link != nil {
		s.lanes, _ = link.Throttle.(*admission.Lanes)
	}
	s.accounts, _ = identify.ParseAccounts(o.Account)
	tokens := ""
	if o.JWT != nil {
		tokens = o.JWT.Header
	}
	if s.accounts, err = s.accounts.By(o.AccountConflict, tokens).WithParts(chain.KeyParts()); err != nil {
		return err
	}
	s.keyed, s.costHeader = len(chain.KeyParts()) > 0, http.CanonicalHeaderKey(chain.CostHeader())
	s.request, s.response = o.Headers.Request.ready(), o.Headers.Response.ready()
	return nil
}

func (s *setup) httpOptions() gate.HTTPOptions {
	t := &s.opts.Timeouts
	return gate.HTTPOptions{Header: t.Header.Std(), Idle: t.Idle.Std(), HeaderBytes: int(s.opts.Bounds.Header),
		Write: s.writeTime()}
}

// writeTime is how long a client may take nothing of an answer over HTTP/2.
func (s *setup) writeTime() time.Duration {
	progress := s.opts.Timeouts.Progress.Std()
	return progress + progress/8
}

// end ends what goes on in the background, except for what kept uses too. Requests under way go on.
func (s *setup) end(kept *setup) {
	if kept == nil {
		kept = &setup{}
	}
	s.keys.End(kept.keys)
	s.pools.close(kept.pools)
}

// upstream are the options of the servers, with the gate's timeouts.
func (o *Options) upstream() behind.Options {
	u := o.Upstream
	u.Timeouts = behind.Timeouts{Connect: o.Timeouts.Connect, Response: o.Timeouts.Response}
	return u
}

func (s *setup) sign(env Env) {
	secrets := env.Secrets(s.opts.Throttles)
	s.clients = identify.NewClients(secrets[0], secrets[1:]...)
	if s.ticket != pages.TicketCookie {
		secrets = s.ownSecrets(secrets)
	}
	s.tickets = admission.NewTickets(secrets[0], secrets[1:]...)
}

func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
