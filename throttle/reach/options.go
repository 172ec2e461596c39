package reach

import (
	"cmp"
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
