package httpgate

import (
	"errors"
	"net"
	"reflect"
	"sync"

	"weir/admission"
	"weir/gate"
	"weir/identify"
	"weir/policy"
	behind "weir/upstream"
)

// A setup is everything that a request needs to know of the gate's options. It does not change; a reload puts another
// one in its place, and a request keeps the one that it began with.
type setup struct {
	opts      Options // with defaults
	door      *policy.Door
	chain     *policy.Chain
	metered   bool             // a throttle of the chain counts bytes
	till      policy.Till      // nil where no stamps are taken
	lanes     *admission.Lanes // nil where the capacity is not limited
	tillName  string           // of the throttles
	lanesName string
	clients   *identify.Clients // sign what clients are given
	tickets   *admission.Tickets
	clientSide
	proxies   identify.Proxies
	accounts  identify.Accounts
	transport *services
}

// newSetup checks the options. Connections to the servers that the setup before, if any, has in common with this one
// are used on.
func newSetup(o Options, accept, chain *policy.Chain, env Env, before *setup) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	if chain == nil {
		chain, _ = policy.New(nil, nil)
	}
	s := &setup{opts: o, chain: chain, metered: chain.Meters(),
		proxies: identify.NewProxies(o.TrustedProxies, o.ForwardedHeader)}
	s.accounts, _ = identify.ParseAccounts(o.Account)
	tokens := ""
	if o.JWT != nil {
		tokens = o.JWT.Header
	}
	s.accounts = s.accounts.By(o.AccountConflict, tokens)
	var err error
	if s.clientSide, err = newFront(&o, &s.accounts, env, before); err != nil {
		return nil, err
	}
	if accept != nil {
		s.door = policy.NewDoor(accept, s.proxies.Trusts)
	}
	if link := chain.TillLink(); link != nil {
		s.till, s.tillName = chain.Till(), link.Name
	}
	if link := chain.LanesLink(); link != nil {
		s.lanes, _ = link.Throttle.(*admission.Lanes)
		s.lanesName = link.Name
	}
	s.sign(env)
	if s.transport, err = newServices(o, env, before); err != nil {
		s.clientSide.drop(before)
		return nil, err
	}
	return s, nil
}

func (s *setup) httpOptions() gate.HTTPOptions {
	t := &s.opts.Timeouts
	return gate.HTTPOptions{Header: t.Header.Std(), Idle: t.Idle.Std(), HeaderBytes: int(s.opts.Bounds.Header)}
}

// replaced ends what the old setup had and the next one does not use.
func replaced(old, next *setup, serving bool) {
	next.clientSide.replaces(&old.clientSide, serving)
	if old.transport != next.transport {
		old.transport.CloseIdleConnections()
	}
}

// drop ends what a setup that will not be used has and the current one does not.
func (s *setup) drop(current *setup) {
	s.clientSide.drop(current)
	if s.transport != current.transport {
		s.transport.CloseIdleConnections()
	}
}

// services are the servers behind the gate.
type services struct{ *behind.Pool }

func newServices(o Options, env Env, before *setup) (*services, error) {
	if before != nil && reflect.DeepEqual(o.upstream(), before.opts.upstream()) {
		return before.transport, nil
	}
	var p *behind.Pool
	var err error
	if before != nil {
		p, err = before.transport.Configure(o.upstream())
	} else {
		p, err = behind.New(o.upstream(), behind.Env{Clock: env.Clock, Observer: env.Upstream, Roots: env.Roots})
	}
	if err != nil {
		return nil, err
	}
	return &services{p}, nil
}

// upstream is what the pool of servers is told: the gate's timeouts are for it too.
func (o *Options) upstream() behind.Options {
	u := o.Upstream
	u.Timeouts = behind.Timeouts{Connect: o.Timeouts.Connect, Response: o.Timeouts.Response}
	return u
}

// CloseIdleConnections ends what is not used any more. Requests under way go on.
func (s *services) CloseIdleConnections() { s.Close() }

// sign makes what signs ids and tickets.
func (s *setup) sign(env Env) {
	secrets := env.Secrets(s.opts.Throttles)
	s.clients, s.tickets = identify.NewClients(secrets[0], secrets[1:]...), admission.NewTickets(secrets[0])
}

// timedOut reports whether an error says that somebody took too long.
func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// buffers are those through which bodies are copied.
var buffers bufferPool

type bufferPool struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *bufferPool) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

func (b *bufferPool) Put(p []byte) {
	if len(p) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(p))
	}
}
