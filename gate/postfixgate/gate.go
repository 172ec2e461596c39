package postfixgate

import (
	"net/netip"
	"slices"

	"weir/gate"
	"weir/identify"
	"weir/internal/logs"
	"weir/mail/spool"
	"weir/policy"
)

// KindMail is the kind of the events that a gate puts before its chains.
const KindMail = "mail"

// A Gate is one policy service with its throttles and the spool that it asks.
type Gate struct {
	*gate.Skeleton[setup]
	env      Env
	arriving arriving

	garbled, failing, misled logs.Line
}

// New returns a gate that listens nowhere yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	env, err := env.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := newSetup(o, p)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env, arriving: arriving{dropped: env.Observer.Bounded}}
	g.Skeleton = gate.New(env.Env, s, gate.Hooks[setup]{
		What: "connections",
		Open: func(s *setup) (gate.Listener, error) {
			return g.env.Sockets.Listen(s.opts.Listen, s.opts.Socket)
		},
		Take: g.receive,
	})
	return g, nil
}

// Prepare makes ready to go on with other options and parts. Everything that can fail happens here; then either commit,
// which cannot fail, or abort must be called. Requests under way keep what they began with. The listener is kept: a
// changed listen address is ignored, it takes another gate, and so do other rights on a socket.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	now := g.Setup.Load()
	o.Listen, o.Socket = now.opts.Listen, now.opts.Socket
	return g.Replace(newSetup(o, p))
}

// A setup is what requests need to know of the options. It does not change. A reload replaces it, and a request keeps
// the one that it began with.
type setup struct {
	opts     Options // with defaults
	parts    Parts   // none of the chains is empty
	clients  identify.Proxies
	networks []netip.Prefix
	limits   limits
	over     answer // without filter
	stopped  answer
	failed   answer
	bounded  answer
}

func newSetup(o Options, p Parts) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	for _, chain := range []**policy.Chain{&p.Throttles, &p.PerRecipient} {
		if *chain != nil && len((*chain).Links()) == 0 {
			*chain = nil
		}
	}
	s := &setup{opts: o, parts: p, clients: identify.NewProxies(o.Clients, "")}
	for _, prefix := range o.Networks {
		s.networks = append(s.networks, identify.PlainPrefix(prefix))
	}
	s.limits = limits{mails: o.Bounds.Mails, recipients: o.Bounds.Recipients, memory: int64(o.Bounds.Memory),
		age: o.Timeouts.Mail.Std()}
	switch o.Over {
	case OverFilter:
		s.over = answer{ActionFilter, o.Filter}
	case OverHold:
		s.over = held
	case OverDefer:
		s.over = overDefer
	case OverReject:
		s.over = overReject
	}
	if s.stopped = refusing(spool.ErrStopped); o.Stopped == Defer {
		s.stopped = answer{ActionDefer, "4.7.1 " + spool.ErrStopped.Text}
	}
	s.failed = o.OnError.or(failed)
	s.bounded = o.OnBound.or(bounded)
	return s, nil
}

// within reports whether clients at an address send without a login.
func (s *setup) within(addr netip.Addr) bool {
	return slices.ContainsFunc(s.networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}
