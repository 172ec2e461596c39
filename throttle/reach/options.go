package reach

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/identify"
)

// An Action is what holds for a user over the threshold.
type Action string

const (
	Flag      Action = "flag"
	Limit     Action = "limit"
	KnownOnly Action = "known-only"
	HoldNew   Action = "hold-new"
	Block     Action = "block"
)

// A Structure is what the history of a user is kept in.
type Structure string

const (
	HyperLogLog Structure = "hyperloglog"
	Bloom       Structure = "bloom"
)

// A Counting is how new recipients are counted.
type Counting string

const (
	InverseProbability Counting = "inverse-probability" // a change of a cell counts as often as such a change is rare
	Changes            Counting = "changes"             // the source's counter: every change counts as one
	// the source's other way: cells are saved at the start of a window and compared
	Cells Counting = "cells"
)

// Against is what a threshold in percent is a share of.
type Against string

const (
	AgainstHistory  Against = "history"  // all recipients before the window
	AgainstPrevious Against = "previous" // the new recipients of the window before
)

// Learning is where a dynamic threshold comes from.
type Learning string

const (
	FromCohort  Learning = "cohort"  // a high quantile of users of about the same age and size
	FromAverage Learning = "average" // the source's: the average of all users
)

// An Identifier is what tells recipients apart.
type Identifier string

const (
	ByAddress Identifier = "address"
	ByName    Identifier = "name"
	ByPhone   Identifier = "phone"
	ByDevice  Identifier = "device"
)

// Options configure a reach throttle: how fast a user may write to people they never wrote to.
type Options struct {
	// Which windows are compared with the threshold: hour, day, week. If the threshold is a count, the week is used
	// only where it is listed. Default hour, day and week.
	Windows []Window `yaml:"windows"`
	// How many new recipients a user may write to within a window without being flagged: dynamic (the
	// default; what is usual among users), a share such as 200% (they are three times as many as before), or a count
	// such as 100.
	Threshold Threshold `yaml:"threshold"`
	// What a threshold in percent is a share of: history (the default; all recipients before the window) or previous
	// (the new ones of the window before).
	Against Against `yaml:"against"`
	// Nobody is flagged for fewer new recipients than that in a window, whatever the threshold says. Default 50.
	Floor int `yaml:"floor"`
	// How a dynamic threshold is learnt.
	Dynamic Dynamic `yaml:"dynamic"`
	// How many new recipients a user may have in a window while nothing is known of them, which is in the first days
	// (see dynamic.learn) after their registration or first message, and in those of the throttle: a user who brings a
	// list is not punished for its length. Imported accounts are old. Default 10000.
	Newcomers int `yaml:"newcomers"`

	// What holds for a flagged user: flag (nothing), limit (so many messages in a time, see limit), known-only (new
	// recipients are refused), hold-new (the default; new recipients are held until somebody has looked at them) or
	// block (everything is refused).
	Over Action `yaml:"over"`
	// With over: hold-new, how many new recipients of one user may be withheld at a time. Mail to more of them is
	// deferred. Default 500.
	Withheld int `yaml:"withheld"`
	// … and how much mail that may be. Default 50MB.
	WithheldSize weir.Size `yaml:"withheld_size"`
	// With over: limit, how many messages a flagged user may send in a time. Messages sent in that time before the flag
	// count, too. Default 10/h.
	Limit weir.Rate `yaml:"limit"`
	// How long a flag holds at least. Default 1h.
	For weir.Duration `yaml:"for"`
	// A flag ends when the rate has fallen to this share of the threshold. Default 50%.
	Until weir.Share `yaml:"until"`

	// What tells recipients apart: address, name, phone, device, or several of them together. Default: by the kind of
	// message, which is the address of mail, the phone of sms and mms, the name of social, and the device of device.
	Identifier []Identifier `yaml:"identifier"`
	// Which addresses are the same person's.
	Same []identify.AliasRule `yaml:"same"`
	// The country code of phone numbers that are written without one: "+49".
	Country string `yaml:"country"`
	// Only recipients in these domains are counted: example.org, or .example.org with everything below it. Default:
	// all. The owner of a domain can invent any number of recipients in it, so list only large domains.
	Domains []string `yaml:"domains"`
	// Domains whose recipients are never counted.
	Internal []string `yaml:"internal"`
	// Users who are never flagged.
	Exempt []string `yaml:"exempt"`

	// What the history of a user is kept in: hyperloglog (the default; up to 3 KB a user) or bloom (a Bloom filter, 2
	// to 4 bytes a recipient, which also tells who is known).
	Structure Structure `yaml:"structure"`
	// How many cells a HyperLogLog has: a power of two from 256 to 65536. 4096 count to 1.3%. Default 4096.
	Cells int `yaml:"cells"`
	// How new recipients are counted in a HyperLogLog: inverse-probability (the default), changes (every change of a
	// cell counts as one, which is far too few from a few thousand on) or cells (they are saved at the start of a
	// window, and compared).
	Count Counting `yaml:"count"`
	// Keep the set of known recipients also where the action does not need one: 1.5 bytes a recipient. Then it is there
	// when you change the action later. Default: only where it is needed.
	Known bool `yaml:"known"`
}

// Dynamic says how a dynamic threshold is learnt.
type Dynamic struct {
	// What is usual: cohort (the default; a quantile of the users of about the same age and number of recipients) or
	// average (of all).
	From Learning `yaml:"from"`
	// Which share of the windows in which users sent anything is usual. Default 99.9%.
	Quantile weir.Share `yaml:"quantile"`
	// How many times the usual is too much: 2, or 1.5. Default 2.
	Times Times `yaml:"times"`
	// How long users, and the throttle as a whole, are watched before anybody is flagged by it. Default 7d.
	Learn weir.Duration `yaml:"learn"`
}

// What holds where nobody said otherwise, as far as others need to know.
const (
	DefaultFloor = 50
	DefaultCells = 4096
	DefaultFor   = weir.Duration(time.Hour)
)

// WithDefaults returns the options with everything filled in, except an identifier that follows the kind of message.
func (o Options) WithDefaults() Options {
	if len(o.Windows) == 0 {
		// A slow thief is found by the week. But who writes a count means what somebody does in a day.
		o.Windows = []Window{Hour, Day, Week}
		if o.Threshold.Count > 0 {
			o.Windows = o.Windows[:2]
		}
	}
	o.Against = cmp.Or(o.Against, AgainstHistory)
	if o.Floor == 0 {
		o.Floor = DefaultFloor
		if o.Threshold.Count > 0 { // who writes a small count means it
			o.Floor = min(o.Floor, o.Threshold.Count)
		}
	}
	o.Dynamic.From = cmp.Or(o.Dynamic.From, FromCohort)
	o.Dynamic.Quantile = cmp.Or(o.Dynamic.Quantile, 0.999)
	o.Dynamic.Times = cmp.Or(o.Dynamic.Times, 2)
	o.Dynamic.Learn = cmp.Or(o.Dynamic.Learn, weir.Duration(7*24*time.Hour))
	o.Newcomers = cmp.Or(o.Newcomers, 10_000)
	o.Over = cmp.Or(o.Over, HoldNew)
	o.Withheld = cmp.Or(o.Withheld, 500)
	o.WithheldSize = cmp.Or(o.WithheldSize, 50_000_000)
	o.Limit = cmp.Or(o.Limit, weir.Rate{Count: 10, Per: time.Hour})
	o.For = cmp.Or(o.For, DefaultFor)
	o.Until = cmp.Or(o.Until, 0.5)
	o.Structure = cmp.Or(o.Structure, HyperLogLog)
	o.Cells = cmp.Or(o.Cells, DefaultCells)
	o.Count = cmp.Or(o.Count, InverseProbability)
	return o
}

// Bounds on what an operator may write.
const (
	MaxThreshold = 1_000_000 // also of the floor
	MaxNewcomers = 10_000_000

	MaxWithheld     = 1_000_000
	MaxWithheldSize = weir.Size(1e12)

	MaxShare    = weir.Share(1000) // 100000%
	MaxTimes    = Times(1000)
	MinQuantile = weir.Share(0.5)
	MaxQuantile = weir.Share(0.9999)
	MinLearn    = weir.Duration(time.Hour)
	MinFor      = weir.Duration(time.Minute)
	MaxPeriod   = weir.Duration(365 * 24 * time.Hour)
	MinCells    = 256
	MaxCells    = 65_536
)

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v mistakes
	v.windows(o.Windows)
	v.threshold(&o)
	v.dynamic(&o.Dynamic)
	v.Count("newcomers", o.Newcomers, MaxNewcomers)
	v.OneOf("over", string(o.Over), string(Flag), string(Limit), string(KnownOnly), string(HoldNew), string(Block))
	v.Count("withheld", o.Withheld, MaxWithheld)
	v.Size("withheld_size", o.WithheldSize, 0, MaxWithheldSize)
	v.rate("limit", o.Limit)
	weir.Between(&v.Mistakes, "for", o.For, MinFor, MaxPeriod)
	if o.Until < 0 || o.Until > 1 {
		v.Add("until", fmt.Sprintf("%s is out of bounds", o.Until), "between 1% and 100% of the threshold")
	}
	v.identifier(o.Identifier)
	_, err := identify.NewAliases(o.Same)
	v.Under("same", err)
	if o.Country != "" {
		if _, err := identify.Phone("+493012345678", o.Country); err != nil {
			v.Add("country", fmt.Sprintf("%.16q is not the code of a country", o.Country), "write +49")
		}
	}
	v.Domains("domains", o.Domains, "", domainForm)
	v.Domains("internal", o.Internal, "", domainForm)
	v.Names("exempt", o.Exempt)
	v.structure(&o)
	return v.Err()
}

// mistakes collects field errors, also those that only this package knows.
type mistakes struct{ weir.Mistakes }

func (v *mistakes) windows(all []Window) {
	for i, w := range all {
		at := fmt.Sprintf("windows[%d]", i)
		switch {
		case int(w) >= len(Windows):
			v.Add(at, fmt.Sprintf("unknown window %d", w), "one of hour, day, week")
		case slices.Contains(all[:i], w):
			v.Add(at, fmt.Sprintf("%s is listed twice", w), "leave it out")
		}
	}
}

func (v *mistakes) threshold(o *Options) {
	switch t := o.Threshold; {
	case t.Share != 0 && t.Count != 0:
		v.Add("threshold", "a share and a count at once", "write one of 200% and 100")
	case t.Share < 0 || t.Share > MaxShare:
		v.Add("threshold", fmt.Sprintf("%s is out of bounds", t.Share), fmt.Sprintf("at most %s", MaxShare))
	case t.Count < 0 || t.Count > MaxThreshold:
		v.Add("threshold", fmt.Sprintf("%d is out of bounds", t.Count), fmt.Sprintf("between 1 and %d", MaxThreshold))
	case t.Count > 0 && o.Floor > t.Count:
		v.Add("floor", fmt.Sprintf("%d is above the threshold, which is never reached", o.Floor),
			fmt.Sprintf("at most %d", t.Count))
	}
	v.OneOf("against", string(o.Against), string(AgainstHistory), string(AgainstPrevious))
	if o.Against == AgainstPrevious && o.Threshold.Share == 0 {
		v.Add("against", fmt.Sprintf("a threshold of %s is not a share", o.Threshold),
			"write one in percent: threshold: 200%")
	}
	v.Count("floor", o.Floor, MaxThreshold)
}

func (v *mistakes) dynamic(d *Dynamic) {
	v.OneOf("dynamic.from", string(d.From), string(FromCohort), string(FromAverage))
	weir.Between(&v.Mistakes, "dynamic.quantile", d.Quantile, MinQuantile, MaxQuantile)
	weir.Between(&v.Mistakes, "dynamic.times", d.Times, 1, MaxTimes)
	weir.Between(&v.Mistakes, "dynamic.learn", d.Learn, MinLearn, MaxPeriod)
}

func (v *mistakes) rate(path string, r weir.Rate) {
	switch {
	case r == weir.Rate{}:
	case r.Count <= 0 || r.Per <= 0:
		v.Add(path, "at this rate no message is ever sent", "write 10/h, or over: block")
	case r.Count > MaxThreshold:
		v.Add(path, fmt.Sprintf("%s is too fast", r), fmt.Sprintf("at most %d messages", MaxThreshold))
	case r.Per < time.Second || r.Per > MaxPeriod.Std():
		v.Add(path, fmt.Sprintf("%s is out of bounds", r),
			fmt.Sprintf("messages per 1s to %s", MaxPeriod))
	}
}

func (v *mistakes) identifier(all []Identifier) {
	known := []string{string(ByAddress), string(ByName), string(ByPhone), string(ByDevice)}
	for i, id := range all {
		at := fmt.Sprintf("identifier[%d]", i)
		switch {
		case !slices.Contains(known, string(id)):
			v.Add(at, fmt.Sprintf("unknown identifier %.64q", id), weir.Suggest(string(id), known...))
		case slices.Contains(all[:i], id):
			v.Add(at, fmt.Sprintf("%s is listed twice", id), "leave it out")
		}
	}
	if slices.Contains(all, ByAddress) && slices.Contains(all, ByDevice) {
		v.Add("identifier", "a recipient is an address or a device", "leave one of the two out")
	}
}

func (v *mistakes) structure(o *Options) {
	v.OneOf("structure", string(o.Structure), string(HyperLogLog), string(Bloom))
	if c := o.Cells; c != 0 && (c < MinCells || c > MaxCells || c&(c-1) != 0) {
		v.Add("cells", fmt.Sprintf("%d is not a number of cells", c),
			fmt.Sprintf("a power of two between %d and %d", MinCells, MaxCells))
	}
	v.OneOf("count", string(o.Count), string(InverseProbability), string(Changes), string(Cells))
	if o.Structure == Bloom && (o.Count == Changes || o.Count == Cells) {
		v.Add("count", fmt.Sprintf("a Bloom filter has no cells to count by %s", o.Count),
			"leave it out, or write structure: hyperloglog")
	}
}

// domainForm is the form in which domains are compared.
func domainForm(s string) string {
	bare, below := strings.CutPrefix(s, ".")
	if below {
		return "." + identify.Domain(bare)
	}
	return identify.Domain(bare)
}
