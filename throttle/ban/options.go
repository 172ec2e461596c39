package ban

import (
	"cmp"
	"net/netip"
	"time"

	"weir"
)

// Bounds on what an operator may write.
const (
	MaxEntries     = 10_000_000
	MaxAddressFrom = 100
	MaxExempt      = 10_000

	minTime   = time.Second
	maxTTL    = 10 * 365 * 24 * time.Hour
	maxWindow = 30 * 24 * time.Hour
)

// Options configure the block list.
type Options struct {
	// How long a client stays banned that a mechanism bans, such as one that forges stamps. Default 1h.
	TTL weir.Duration `yaml:"ttl"`
	// How many clients and networks the list holds, at most. One more pushes out the ban that ends soonest, but never
	// an operator's. Default 100000.
	Max int `yaml:"max"`
	// From how many different clients of one address banned within the window the address is banned too. 1 bans it with
	// the first one. Default 3.
	AddressFrom int `yaml:"address_from"`
	// How long a banned client counts towards banning its address. Default 10m.
	Window weir.Duration `yaml:"window"`
	// How many bits of an IPv4 address are banned with an address. Default 32.
	V4 int `yaml:"v4"`
	// How many bits of an IPv6 address are banned with an address: a client has a whole /64 to itself. Default 64.
	V6 int `yaml:"v6"`
	// Ranges of addresses that only operators can ban, and no mechanism: offices, for example. Single clients from
	// there are banned all the same. Trusted proxies need not be listed: no mechanism bans them.
	Exempt []netip.Prefix `yaml:"exempt"`
	// Automatic bans of networks that stay over a limit. Without it, there are none.
	Auto *Auto `yaml:"auto"`
}

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.TTL = cmp.Or(o.TTL, weir.Duration(time.Hour))
	o.Max = cmp.Or(o.Max, 100_000)
	o.AddressFrom = cmp.Or(o.AddressFrom, 3)
	o.Window = cmp.Or(o.Window, weir.Duration(10*time.Minute))
	o.V4 = cmp.Or(o.V4, 32)
	o.V6 = cmp.Or(o.V6, 64)
	if o.Auto != nil {
		o.Auto = new(o.Auto.WithDefaults())
	}
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v weir.Mistakes
	v.Lasts("ttl", o.TTL, minTime, maxTTL)
	v.Within("max", int64(o.Max), 1, MaxEntries)
	v.Within("address_from", int64(o.AddressFrom), 1, MaxAddressFrom)
	v.Lasts("window", o.Window, minTime, maxWindow)
	v.Within("v4", int64(o.V4), 1, 32)
	v.Within("v6", int64(o.V6), 1, 128)
	v.AtMost("exempt", "ranges", len(o.Exempt), MaxExempt)
	v.Networks("exempt", o.Exempt)
	if o.Auto != nil {
		v.Under("auto", o.Auto.Validate())
	}
	return v.Err()
}
