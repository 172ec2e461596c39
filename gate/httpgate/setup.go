package httpgate

import (
	"errors"
	"net"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"weir"
	"weir/admission"
	"weir/gate"
	"weir/gate/httpgate/keys"
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
	till     policy.Till       // nil where no stamps are taken
	lanes    *admission.Lanes  // nil where the capacity is not limited
	clients  *identify.Clients // sign what clients are given
	tickets  *admission.Tickets
	keys     *keys.Keys
	proxies  identify.Proxies
	accounts identify.Accounts
	servers  *behind.Pool // behind the gate

	headerFrom        []netip.Prefix // of proxies whose connections begin with a PROXY header
	request, response rules          // for headers
}

// newSetup checks the options. Connections and keys that the setup before, if any, has in common with this one are
// kept.
func newSetup(o Options, accept, chain *policy.Chain, env Env, before *setup) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	if chain == nil {
		chain, _ = policy.New(nil, nil)
	}
	s := &setup{opts: o, chain: chain, till: chain.Till(),
		proxies: identify.NewProxies(o.TrustedProxies, o.ForwardedHeader)}
	s.accounts, _ = identify.ParseAccounts(o.Account)
	tokens := ""
	if o.JWT != nil {
		tokens = o.JWT.Header
	}
	s.accounts = s.accounts.By(o.AccountConflict, tokens)
	for _, prefix := range o.ProxyProtocol.From {
		s.headerFrom = append(s.headerFrom, identify.PlainPrefix(prefix))
	}
	s.request, s.response = o.Headers.Request.ready(), o.Headers.Response.ready()
	if accept != nil {
		s.door = policy.NewDoor(accept, s.proxies.Trusts)
	}
	if link := chain.LanesLink(); link != nil {
		s.lanes, _ = link.Throttle.(*admission.Lanes)
	}
	s.sign(env)
	var oldKeys *keys.Keys
	if before != nil {
		oldKeys = before.keys
	}
	var err error
	s.keys, err = keys.New(o.TLS, o.JWT, s.accounts.Claims(), keys.Env{Clock: env.Clock, Log: env.Log, Roots: env.Roots,
		Data: env.Data, Proofs: env.Proofs, Unusable: func() { env.Observer.Bounded(BoundCertificate) }}, oldKeys)
	if err != nil {
		return nil, err
	}
	if s.servers, err = newServers(&o, env, before); err != nil {
		s.keys.End(oldKeys)
		return nil, err
	}
	return s, nil
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
	s.keys.End(kept.keys)
	if s.servers != kept.servers {
		s.servers.Close()
	}
}

func newServers(o *Options, env Env, before *setup) (*behind.Pool, error) {
	next := o.upstream()
	if before == nil {
		p, err := behind.New(next, behind.Env{Clock: env.Clock, Observer: env.Upstream, Roots: env.Roots,
			Resolver: env.Resolver})
		return p, weir.Under("upstream", err)
	}
	if reflect.DeepEqual(next, before.opts.upstream()) {
		stale, err := before.servers.Stale()
		if err != nil {
			return nil, weir.Under("upstream", err)
		}
		if !stale {
			return before.servers, nil
		}
	}
	p, err := before.servers.Configure(next)
	return p, weir.Under("upstream", err)
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
	s.tickets = admission.NewTickets(secrets[0], secrets[1:]...)
}

func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

type buffer [32 << 10]byte

// buffers are those through which bodies are copied.
var buffers = sync.Pool{New: func() any { return new(buffer) }}
