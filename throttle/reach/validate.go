package reach

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/identify"
)

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
