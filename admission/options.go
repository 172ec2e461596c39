package admission

import (
	"cmp"
	"fmt"
	"time"

	"weir"
)

// Bounds on what an operator may write.
const (
	MaxConcurrent = 100_000
	MaxWaiting    = 1_000_000
	MaxLine       = 1_000_000
	MaxPool       = weir.Share(0.5)
	MaxMaxWait    = 10 * time.Minute
	MaxSlowest    = weir.Size(1 << 20)
	MinReload     = time.Second
	MaxReload     = time.Minute
)

// Options are how much the upstream can do, and how clients wait for it.
type Options struct {
	// How many requests the upstream works on at once. With learn, where to begin: 16 unless written.
	Concurrent int `yaml:"concurrent"`
	// Learn the capacity from how long requests take.
	Learn bool `yaml:"learn"`
	// The lowest capacity that may be learned. Default 4.
	Least int `yaml:"least"`
	// The highest capacity that may be learned. Default 1000.
	Most int `yaml:"most"`
	// The share of the capacity that is guaranteed to the general pool (clients without a stamp) while clients with a
	// stamp wait. Default 10%.
	Pool weir.Share `yaml:"pool"`
	// No guarantee: the general pool goes on only when nobody with a stamp waits.
	Strict bool `yaml:"strict"`
	// How many requests may be held in each of the two lanes. One more is refused. Default 1000.
	Waiting int `yaml:"waiting"`
	// How many people may wait in line in the waiting room. One more keeps their number and is asked to come again,
	// and so does one of an address that has many, in the last tenth. Default 10000.
	Line int `yaml:"line"`
	// How long a request may be held. Default 30s.
	MaxWait weir.Duration `yaml:"max_wait"`
	// The longest expected wait for which an unpaid request is held while stamps are asked for. If it would have to
	// wait longer, it is asked for a stamp. With 0s, it is asked whenever no place is free. Default 5s.
	PoolWait *weir.Duration `yaml:"pool_wait"`
	// How many requests and places in line one source address may have waiting together; of IPv6, one /64. Who paid and
	// has a client id is counted by that. Default 64: a page and what it loads.
	PerClient int `yaml:"per_client"`
	// How many bytes a second a client has to send of a request's body, or take of the answer, while others wait. A
	// slower one loses its place. Default 4KiB.
	Slowest weir.Size `yaml:"slowest"`
	// How often the page of the waiting room reloads, from 1s to 1m. People who miss two reloads lose their place.
	// Default 5s.
	Reload weir.Duration `yaml:"reload"`
	// In a farm: the upstream is this node's own. Its capacity, its load and its waiting room are then this node's as
	// well. Otherwise all nodes with the same upstream share them. Default: true where all its servers are on the same
	// machine (127.0.0.1, localhost, a socket).
	Local *bool `yaml:"local"`
}

// local reports whether the options say that the upstream is this node's own.
func (o *Options) local() bool { return o.Local != nil && *o.Local }

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	if o.Learn {
		o.Least = cmp.Or(o.Least, 4)
		o.Most = cmp.Or(o.Most, max(1000, o.Least))
		o.Concurrent = cmp.Or(o.Concurrent, min(max(16, o.Least), o.Most))
	}
	if !o.Strict {
		o.Pool = cmp.Or(o.Pool, 0.1)
	}
	o.Waiting = cmp.Or(o.Waiting, 1000)
	o.Line = cmp.Or(o.Line, 10_000)
	o.MaxWait = cmp.Or(o.MaxWait, weir.Duration(30*time.Second))
	o.PoolWait = cmp.Or(o.PoolWait, new(min(weir.Duration(5*time.Second), o.MaxWait)))
	o.PerClient = cmp.Or(o.PerClient, 64)
	o.Slowest = cmp.Or(o.Slowest, 4<<10)
	o.Reload = cmp.Or(o.Reload, weir.Duration(5*time.Second))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v weir.Mistakes
	v.Within("concurrent", int64(o.Concurrent), 1, MaxConcurrent)
	v.Within("least", int64(o.Least), 1, MaxConcurrent)
	v.Within("most", int64(o.Most), 1, MaxConcurrent)
	full := o.WithDefaults()
	switch {
	case o.Learn && full.Least > full.Most:
		v.Add("least", fmt.Sprintf("%d is more than the most, %d", full.Least, full.Most), "least is the smaller one")
	case o.Learn && (full.Concurrent < full.Least || full.Concurrent > full.Most):
		v.Add("concurrent", fmt.Sprintf("learning begins at %d, which is not between %d and %d", full.Concurrent,
			full.Least, full.Most), "between least and most")
	case !o.Learn && o.Concurrent == 0:
		v.Add("concurrent", "the capacity of the upstream is missing", "write concurrent: 16, or learn: true")
	case !o.Learn && o.Least != 0:
		v.Add("least", "there is a least only for what is learnt", "leave it out, or write learn: true")
	case !o.Learn && o.Most != 0:
		v.Add("most", "there is a most only for what is learnt", "leave it out, or write learn: true")
	}
	switch {
	case o.Strict && o.Pool != 0:
		v.Add("pool", "strict guarantees nothing to the general pool", "leave one of the two out")
	case !(o.Pool >= 0 && o.Pool <= MaxPool): // not a number is wrong, too
		v.Add("pool", fmt.Sprintf("%s is out of bounds", o.Pool),
			fmt.Sprintf("up to %s; for none write strict: true", MaxPool))
	}
	v.Within("waiting", int64(o.Waiting), 1, MaxWaiting)
	v.Within("line", int64(o.Line), 1, MaxLine)
	v.Within("per_client", int64(o.PerClient), 1, MaxWaiting)
	if d := o.MaxWait.Std(); d < 0 || d > MaxMaxWait {
		v.Add("max_wait", fmt.Sprintf("%s is out of bounds", o.MaxWait),
			fmt.Sprintf("up to %s", weir.Duration(MaxMaxWait)))
	}
	if d := *full.PoolWait; d < 0 && o.PoolWait != nil || d > full.MaxWait {
		v.Add("pool_wait", fmt.Sprintf("%s is out of bounds", d), fmt.Sprintf("up to max_wait, %s", full.MaxWait))
	}
	v.Size("slowest", o.Slowest, 1, MaxSlowest)
	v.Lasts("reload", o.Reload, MinReload, MaxReload)
	return v.Err()
}
