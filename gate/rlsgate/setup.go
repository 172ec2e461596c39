package rlsgate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"weir"
	"weir/identify"
	"weir/policy"
)

// A setup is what a request needs to know of the gate's options. Only the counters of overrides are added to it later.
// A reload replaces it, and a request keeps the one that it began with.
type setup struct {
	opts     Options // with defaults
	domains  map[string]*domain
	counters *counters
	links    []*policy.Link // those that the rate limit service asks, once each
	authz    *policy.Chain  // nil for none
	accounts identify.Accounts
	proxies  identify.Proxies
}

// A domain is one of weir's own, with a chain, or an imported one, with a tree.
type domain struct {
	opts     Domain
	chain    *policy.Chain
	keyParts []string // by which throttles of the chain count
	tree     *level
}

// newSetup checks the options, and reads the files that they name.
func newSetup(o Options, p Parts) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &setup{opts: o.WithDefaults(), domains: map[string]*domain{}, counters: &counters{limit: p.Limit}}
	var v weir.Mistakes
	for _, name := range slices.Sorted(maps.Keys(o.Domains)) {
		d := &domain{opts: o.Domains[name], chain: p.Domains[name]}
		if s.domains[name] = d; d.chain == nil {
			v.Add("domains."+name, fmt.Sprintf("the domain %q has no chain", name), "")
		} else {
			d.keyParts = d.chain.KeyParts()
		}
	}
	if o.Config != "" {
		s.bring(&v, o, p)
	}
	s.noteLinks()
	if a := s.opts.Authz; a != nil {
		if s.authz = p.Authz; s.authz == nil {
			v.Add("authz", "external authorization has no chain", "")
		}
		accounts, _ := identify.ParseAccounts(a.Account)
		s.accounts = accounts.By(a.AccountConflict, "")
		if s.authz != nil {
			var err error
			s.accounts, err = s.accounts.WithParts(s.authz.KeyParts())
			v.Under("authz", err)
		}
		s.proxies = identify.NewProxies(a.TrustedProxies, a.ForwardedHeader)
	}
	return s, v.Err()
}

// bring adds the domains of imported files, and a counter for each of their rules.
func (s *setup) bring(v *weir.Mistakes, o Options, p Parts) {
	imported, err := Read(o.Config, o.MergeDomains)
	if err != nil {
		for _, fe := range weir.FieldErrors(err) {
			v.Add("config", fe.Path+": "+fe.Msg, fe.Hint)
		}
		return
	}
	if p.Limit == nil {
		v.Add("config", "nobody counts the rules of the files", "")
		return
	}
	for _, name := range imported.Domains() {
		if s.domains[name] != nil {
			v.Add("domains."+name, fmt.Sprintf("the domain %q is also in %s", name, o.Config), "leave one out")
			continue
		}
		tree := imported.domains[name]
		s.domains[name] = &domain{tree: tree}
		tree.each(func(r *rule) {
			if r.unlimited {
				return
			}
			if r.counter, err = s.counters.get(r.Rule); err != nil {
				v.Add("config", fmt.Sprintf("the domain %q: %s cannot be counted: %v", name, r.Rule, err), "")
			}
		})
	}
}

// maxPromptLinks is how many throttles are asked for each call whether they answer from memory. Where there are more,
// calls are answered as if one did not.
const maxPromptLinks = 64

// noteLinks notes the throttles that the rate limit service asks.
func (s *setup) noteLinks() {
	seen := map[*policy.Link]bool{}
	note := func(l *policy.Link) {
		if !seen[l] {
			seen[l] = true
			s.links = append(s.links, l)
		}
	}
	for _, d := range s.domains {
		if d.chain != nil {
			for _, l := range d.chain.Links() {
				note(l)
			}
		}
	}
	s.counters.made.Range(func(_, c any) bool {
		note(c.(*counter).link)
		return true
	})
}

// promptRateLimit reports whether a call of the rate limit service is answered without a wait. Limits that requests
// bring are counted as those of files are.
func (s *setup) promptRateLimit() bool {
	return s.opts.MaxWait == 0 && s.opts.Farm != FarmExact && len(s.links) <= maxPromptLinks && prompt(s.links)
}

// promptAuthz reports the same of external authorization.
func (s *setup) promptAuthz() bool {
	return s.opts.MaxWait == 0 && (s.authz == nil || prompt(s.authz.Links()))
}

func prompt(links []*policy.Link) bool {
	for _, l := range links {
		if !l.Prompt() {
			return false
		}
	}
	return true
}

// serverOptions are those that a gRPC server cannot change later.
type serverOptions struct {
	message, streams int
	connect, silent  time.Duration
}

func (s *setup) serverOptions() serverOptions {
	b, t := &s.opts.Bounds, &s.opts.Timeouts
	return serverOptions{message: int(b.Message), streams: b.Streams, connect: t.Connect.Std(), silent: t.Silent.Std()}
}
