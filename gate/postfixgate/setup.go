package postfixgate

import (
	"net/netip"
	"slices"

	"weir/identify"
	"weir/policy"
)

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
	if s.stopped = stopReject; o.Stopped == Defer {
		s.stopped = stopDefer
	}
	s.failed = o.OnError.or(failed)
	s.bounded = o.OnBound.or(bounded)
	return s, nil
}

// within reports whether clients at an address send without a login.
func (s *setup) within(addr netip.Addr) bool {
	return slices.ContainsFunc(s.networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}
