package authgate

import (
	"net/netip"

	"weir/gate"
	"weir/identify"
	"weir/policy"
)

// A setup is what a question needs to know of the gate's options. It does not change. A reload replaces it, and a
// question keeps the one that it began with.
type setup struct {
	opts     Options // with defaults
	chain    *policy.Chain
	proxies  identify.Proxies
	accounts identify.Accounts
	socket   bool // everybody who can use the socket may ask
}

// onSocket stands for a peer on a socket of this machine, which has no address.
var onSocket = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func newSetup(o Options, chain *policy.Chain) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	if chain == nil {
		chain, _ = policy.New(nil, nil)
	}
	s := &setup{opts: o, chain: chain}
	trusted := o.TrustedProxies
	if network, _ := gate.Split(o.Listen); network == "unix" {
		s.socket, trusted = true, append([]netip.Prefix{netip.PrefixFrom(onSocket, 32)}, trusted...)
	}
	// None of the proxies writes Forwarded: a client wrote it.
	s.proxies = identify.NewProxies(trusted, identify.XForwardedFor)
	accounts, _ := identify.ParseAccounts(o.Account)
	var err error
	s.accounts, err = accounts.By(o.AccountConflict, "").WithParts(chain.KeyParts())
	return s, err
}

// readAhead is how much more than its bound net/http takes for a request's head.
const readAhead = 4 << 10

func (s *setup) httpOptions() gate.HTTPOptions {
	t := &s.opts.Timeouts
	return gate.HTTPOptions{Header: t.Header.Std(), Idle: t.Idle.Std(),
		HeaderBytes: int(s.opts.Bounds.Header) - readAhead}
}
