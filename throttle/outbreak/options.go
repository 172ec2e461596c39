package outbreak

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir"
)

// Bounds on what an operator may write. The queue of a user takes what may wait and one message more.
const (
	MaxStop       = 10_000
	MaxRecipients = 10_000
	MaxSlow       = 1_000
	MaxUsers      = 10_000 // under users; the store takes more
	MinPeriod     = time.Millisecond
	MaxPeriod     = 365 * 24 * time.Hour
	MinResume     = time.Minute
)

// What holds where nobody said otherwise: the document's figures, and its advice on the working set.
const (
	DefaultWorkingSet = 5
	DefaultMaxSlack   = 1
	DefaultMaxMSlack  = 15
	DefaultStop       = 20
	DefaultRecipients = 100
	DefaultSlow       = 4
)

var (
	defaultRate     = weir.Rate{Count: 1, Per: time.Minute}
	defaultNullRate = weir.Rate{Count: 60, Per: time.Hour}
)

// Replace says who leaves the working set when somebody new comes.
type Replace string

const (
	LRU  Replace = "lru"  // the one written to the longest ago
	FIFO Replace = "fifo" // the one put in the longest ago
)

// NullSender says what becomes of mail without a sender.
type NullSender string

const (
	NullServers NullSender = "servers"
	NullFree    NullSender = "free"
	NullCounted NullSender = "counted"
)

// Large says what becomes of a single message that is large enough to stop its user.
type Large string

const (
	LargeStop Large = "stop"
	LargeHold Large = "hold"
)

// Options configure a mail throttle: how fast the mail of each user reaches different recipients.
type Options struct {
	// One recipient per time: when mail comes too fast, one of the waiting recipients is let go in each period. When
	// nobody waits, one credit is earned in each period. 60/h is the same as 1/m. Default 1/m.
	Rate weir.Rate `yaml:"rate"`
	// The same for messages to several recipients, which then have a clock of their own. Default: the rate, and one
	// clock for both.
	MultiRate weir.Rate `yaml:"multi_rate"`
	// How many recent recipients a message to one may always go to at once; 0 for none. Default 5.
	WorkingSet *int `yaml:"working_set"`
	// How the working set makes room for a new recipient: lru (the default), which drops the one that the user has not
	// written to for the longest time, or fifo, which drops the one that has been in it for the longest time.
	Replace Replace `yaml:"replace"`
	// How many messages to new recipients may pass at once after a quiet time. Default 1.
	MaxSlack *int `yaml:"max_slack"`
	// How many recipients of messages to several may pass at once. A message to more is split: the others wait. Default
	// 15.
	MaxMSlack *int `yaml:"max_mslack"`
	// How many recipients may wait. One more stops the user: their mail is refused, and what waits is held until
	// somebody has looked at it. Default 20.
	Stop *int `yaml:"stop"`
	// How many recipients one message may have. A message to more is refused. Default 100.
	Recipients int `yaml:"recipients"`
	// What happens to a single message that is large enough to stop its user by itself: stop (the user; the default),
	// or hold, which holds the mail for review and lets the user go on.
	Large Large `yaml:"large"`
	// After how long a stopped user may send again, in slow motion, unless an operator stopped them. What is held stays
	// held. 0: never. Default: never.
	Resume weir.Duration `yaml:"resume" zero:"same"`
	// In slow motion a user begins without credit, and a period takes so many times as long, until nobody waits and the
	// credit is full again. Default 4.
	Slow int `yaml:"slow"`
	// Users whose mail always passes, such as bulk mailers.
	Exempt []string `yaml:"exempt"`
	// Whose mail without a sender to one recipient, which is how servers write notifications, is never counted and
	// passes: servers (the default; clients that are known by their address), free (users who log in, too) or counted
	// (nobody's). A thief with a stolen password may leave the sender out.
	NullSender NullSender `yaml:"null_sender"`
	// How many of those one server or user may send: all of them at once, and as many again in each period. More are
	// deferred with 450, so that a server tries again. Default 60/h.
	NullRate weir.Rate `yaml:"null_rate"`
	// Domains whose recipients are never counted, and are reached by stopped users too: example.org, or .example.org
	// with everything below it.
	Internal []string `yaml:"internal"`
	// Recipients that are never counted, and are reached by stopped users too: support@example.org.
	Free []string `yaml:"free"`
	// What holds for single users instead, by their name.
	Users map[string]Limits `yaml:"users"`
	// What holds instead for users that a reach throttle of the same gate has flagged, exempt or not, as long as they
	// are. Default: what holds for them anyway.
	Flagged *Limits `yaml:"flagged"`
}

// WithDefaults returns the options with everything filled in that was left out. The rate of messages to several stays
// out where it is the same.
func (o Options) WithDefaults() Options {
	o.Rate = cmp.Or(o.Rate, defaultRate)
	o.WorkingSet = cmp.Or(o.WorkingSet, new(DefaultWorkingSet))
	o.Replace = cmp.Or(o.Replace, LRU)
	o.MaxSlack = cmp.Or(o.MaxSlack, new(DefaultMaxSlack))
	o.MaxMSlack = cmp.Or(o.MaxMSlack, new(DefaultMaxMSlack))
	o.Stop = cmp.Or(o.Stop, new(DefaultStop))
	o.Recipients = cmp.Or(o.Recipients, DefaultRecipients)
	o.Large = cmp.Or(o.Large, LargeStop)
	o.Slow = cmp.Or(o.Slow, DefaultSlow)
	o.NullSender = cmp.Or(o.NullSender, NullServers)
	o.NullRate = cmp.Or(o.NullRate, defaultNullRate)
	return o
}

// CountsNull reports whether mail without a sender is counted like any other: of a user, who may be the address of a
// server.
func (o *Options) CountsNull(user string) bool {
	switch o.NullSender {
	case NullFree:
		return false
	case NullCounted:
		return true
	}
	if _, err := netip.ParseAddr(user); err == nil {
		return false
	}
	_, err := netip.ParsePrefix(user) // of IPv6 it is a network that is a user
	return err != nil
}

func (o *Options) general() Limits {
	l := Limits{
		Rate: o.Rate, MultiRate: o.MultiRate, WorkingSet: o.WorkingSet, Replace: o.Replace, MaxSlack: o.MaxSlack,
		MaxMSlack: o.MaxMSlack, Stop: o.Stop, Large: o.Large, Resume: &o.Resume,
	}
	if o.Recipients != 0 {
		l.Recipients = &o.Recipients
	}
	if o.Slow != 0 {
		l.Slow = &o.Slow
	}
	return l
}

// Params returns what holds for a user. own are the user's own limits, as Limits writes them; they go before those
// under users, which go before the general ones. Where own cannot be read, the error says so, and the others hold.
func (o *Options) Params(user, own string) (Params, error) {
	p := Params{
		Every: every(defaultRate), WorkingSet: DefaultWorkingSet, MaxSlack: DefaultMaxSlack,
		MaxMSlack: DefaultMaxMSlack, Stop: DefaultStop, Recipients: DefaultRecipients, Slow: DefaultSlow,
		Exempt: slices.Contains(o.Exempt, user),
	}
	nulls := cmp.Or(o.NullRate, defaultNullRate)
	p.Nulls = Nulls{Per: nulls.Per, Every: every(nulls)}
	general := o.general()
	general.apply(&p)
	if listed, ok := o.Users[user]; ok {
		listed.apply(&p)
	}
	var err error
	if own != "" {
		var l Limits
		if l, err = ParseLimits(own); err == nil {
			l.apply(&p)
		}
	}
	if p.MultiEvery == 0 {
		p.MultiEvery = p.Every
	}
	return p, err
}

// Flag returns what holds instead of p for a user who is flagged.
func (o *Options) Flag(p Params) Params {
	if o.Flagged == nil {
		return p
	}
	p.Exempt = false
	same := p.MultiEvery == p.Every
	o.Flagged.apply(&p)
	if same && o.Flagged.MultiRate == (weir.Rate{}) {
		p.MultiEvery = p.Every
	}
	return p
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v mistakes
	v.Under("", o.general().Validate())
	if o.Flagged != nil {
		v.Under("flagged", o.Flagged.Validate())
		if o.Flagged.Exempt != nil {
			v.Add("flagged.exempt", "nobody is exempt while they are flagged", "leave it out")
		}
	}
	v.OneOf("null_sender", string(o.NullSender), string(NullServers), string(NullFree), string(NullCounted))
	v.nullRate(o.NullRate)
	v.Names("exempt", o.Exempt)
	v.Domains("internal", o.Internal, "put single addresses under free", strings.ToLower)
	v.List("free", o.Free, strings.ToLower, address)
	if len(o.Users) > MaxUsers {
		v.Add("users", fmt.Sprintf("%d users are too many", len(o.Users)),
			fmt.Sprintf("at most %d; weir user set keeps limits in the store", MaxUsers))
	}
	for _, user := range slices.Sorted(maps.Keys(o.Users)) {
		at, l := "users."+user, o.Users[user]
		if msg, hint := weir.BadName(user); msg != "" {
			v.Add(at, msg, hint)
		}
		v.Under(at, l.Validate())
		listed := slices.Contains(o.Exempt, user)
		switch alone := l; {
		case l.Exempt != nil && !*l.Exempt && listed:
			v.Add(at+".exempt", "the user is also under exempt", "remove them from one of the two")
		case listed || l.Exempt != nil && *l.Exempt:
			alone.Exempt = nil
			if alone != (Limits{}) {
				v.Add(at, "is exempt: their other limits are never used", "leave the others out")
			}
		}
	}
	return v.Err()
}

type mistakes struct{ weir.Mistakes }

func (v *mistakes) between(path string, got *int, least, most int) {
	if got != nil && (*got < least || *got > most) {
		v.Add(path, fmt.Sprintf("%d is out of bounds", *got), fmt.Sprintf("between %d and %d", least, most))
	}
}

func (v *mistakes) rate(path string, r weir.Rate) {
	v.pace(path, r, every(r), "at this rate waiting messages never leave", "write 1/m",
		"put a user without limits under exempt", "1/%s is the least")
}

func (v *mistakes) nullRate(r weir.Rate) {
	v.pace("null_rate", r, r.Per, "at this rate no message without a sender goes on",
		"write 60/h, or null_sender: counted", "a server that nothing should limit is exempt",
		"the longest period is %s")
}

// pace wants a rate between 1000/s and one with a period of MaxPeriod.
func (v *mistakes) pace(path string, r weir.Rate, period time.Duration, none, write, fast, slow string) {
	switch {
	case r == weir.Rate{}:
	case r.Count <= 0 || r.Per <= 0:
		v.Add(path, none, write)
	case every(r) < MinPeriod:
		v.Add(path, fmt.Sprintf("%s is too fast", r), "1000/s is the most; "+fast)
	case period > MaxPeriod:
		v.Add(path, fmt.Sprintf("%s is too slow", r), fmt.Sprintf(slow, weir.Duration(MaxPeriod)))
	}
}
