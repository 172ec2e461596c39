package reach

import (
	"strings"
	"time"

	"weir/identify"
)

// Rules are options made ready for use. They do not change, and are safe for concurrent use.
type Rules struct {
	o        Options
	same     *identify.Aliases
	domains  domains // empty for all
	internal domains
	exempt   map[string]struct{}

	learn, hold, per int64 // seconds: of dynamic.learn, for, and the period of limit
	until            float64
}

// Rules makes rules of the options, or returns what Validate does.
func (o Options) Rules() (*Rules, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	same, err := identify.NewAliases(o.Same)
	if err != nil {
		return nil, err
	}
	r := &Rules{
		o: o, same: same, domains: newDomains(o.Domains, same), internal: newDomains(o.Internal, same),
		exempt: map[string]struct{}{},
		learn:  int64(o.Dynamic.Learn.Std() / time.Second), hold: int64(o.For.Std() / time.Second),
		per: int64(o.Limit.Per / time.Second), until: float64(o.Until),
	}
	for _, user := range o.Exempt {
		r.exempt[strings.ToLower(user)] = struct{}{}
	}
	return r, nil
}

// Options are what the rules were made of, everything filled in.
func (r *Rules) Options() Options { return r.o }

// NeedsKnown reports whether a set of known recipients is kept. A Bloom filter is one by itself.
func (r *Rules) NeedsKnown() bool {
	return r.o.Structure == HyperLogLog && (r.o.Known || r.o.Over == KnownOnly || r.o.Over == HoldNew)
}

// Exempt reports whether a user is never flagged.
func (r *Rules) Exempt(user string) bool {
	if len(r.exempt) == 0 {
		return false
	}
	_, exempt := r.exempt[strings.ToLower(user)] // mail users log in in any case
	return exempt
}

// Recipient returns the form of a mail address by which it is counted, and whether it is. Others are in lower case.
func (r *Rules) Recipient(address string) (normal string, counted bool) {
	// Where what stands before the @ may be the way to somebody else (ann%example.net@example.org,
	// example.net!ann@example.org), neither the domain nor a tag says anything about who gets the mail.
	if routed(address) {
		if plain, err := identify.Recipient(address); err == nil {
			return plain, true
		}
		return strings.ToLower(strings.TrimSpace(address)), true
	}
	normal, err := r.same.Address(address)
	if err != nil {
		normal = strings.ToLower(strings.TrimSpace(address))
	}
	at := strings.LastIndexByte(normal, '@')
	if at < 0 || err != nil || strings.ContainsAny(normal[:at], "%!@") {
		return normal, true
	}
	host := normal[at+1:]
	return normal, (r.domains.empty() || r.domains.has(host)) && !r.internal.has(host)
}

// routed reports whether an address may be the way to somebody else, as it is written.
func routed(address string) bool {
	at := strings.LastIndexByte(address, '@')
	return at >= 0 && strings.ContainsAny(address[:at], "%!@")
}

// domains are some, and everything below others.
type domains struct{ exact, below map[string]struct{} }

// newDomains also takes what the domains are the same as: addresses are looked at in their one form.
func newDomains(list []string, same *identify.Aliases) domains {
	d := domains{exact: map[string]struct{}{}, below: map[string]struct{}{}}
	for _, one := range list {
		base, below := strings.CutPrefix(one, ".")
		base = identify.Domain(base)
		d.exact[base] = struct{}{}
		if as, err := same.Address("a@" + base); err == nil {
			d.exact[as[strings.LastIndexByte(as, '@')+1:]] = struct{}{}
		}
		if below {
			d.below[base] = struct{}{}
		}
	}
	return d
}

func (d *domains) empty() bool { return len(d.exact) == 0 }

func (d *domains) has(host string) bool {
	if _, found := d.exact[host]; found {
		return true
	}
	for more := len(d.below) > 0; more; {
		if _, found := d.below[host]; found {
			return true
		}
		_, host, more = strings.Cut(host, ".")
	}
	return false
}
