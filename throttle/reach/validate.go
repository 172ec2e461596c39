package reach

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

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
	MinLearn    = time.Hour
	MinFor      = time.Minute
	MaxPeriod   = 365 * 24 * time.Hour
	MaxListed   = 1_000 // domains, internal ones, and names under exempt
	MaxName     = 320   // bytes, of a user or a domain
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
	v.between("for", o.For, MinFor)
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
	v.list("domains", o.Domains, domain)
	v.list("internal", o.Internal, domain)
	v.list("exempt", o.Exempt, name)
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
			v.Add(at, fmt.Sprintf("%s stands there twice", w), "leave it out")
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
		v.Add("against", fmt.Sprintf("a threshold of %s is no share of anything", o.Threshold),
			"write one in percent: threshold: 200%")
	}
	v.Count("floor", o.Floor, MaxThreshold)
}

func (v *mistakes) dynamic(d *Dynamic) {
	v.OneOf("dynamic.from", string(d.From), string(FromCohort), string(FromAverage))
	if d.Quantile != 0 && (d.Quantile < MinQuantile || d.Quantile > MaxQuantile) {
		v.Add("dynamic.quantile", fmt.Sprintf("%s is out of bounds", d.Quantile),
			fmt.Sprintf("between %s and %s", MinQuantile, MaxQuantile))
	}
	if d.Times != 0 && !(d.Times >= 1 && d.Times <= MaxTimes) {
		v.Add("dynamic.times", fmt.Sprintf("%s is out of bounds", d.Times), fmt.Sprintf("between 1 and %s", MaxTimes))
	}
	v.between("dynamic.learn", d.Learn, MinLearn)
}

// between wants a length of time to be between the least and a year, or left out.
func (v *mistakes) between(path string, got weir.Duration, least time.Duration) {
	if got != 0 && (got.Std() < least || got.Std() > MaxPeriod) {
		v.Add(path, fmt.Sprintf("%s is out of bounds", got),
			fmt.Sprintf("between %s and %s", weir.Duration(least), weir.Duration(MaxPeriod)))
	}
}

func (v *mistakes) rate(path string, r weir.Rate) {
	switch {
	case r == weir.Rate{}:
	case r.Count <= 0 || r.Per <= 0:
		v.Add(path, "at this rate no message goes on", "write 10/h, or over: block")
	case r.Count > MaxThreshold:
		v.Add(path, fmt.Sprintf("%s is too fast", r), fmt.Sprintf("at most %d messages", MaxThreshold))
	case r.Per < time.Second || r.Per > MaxPeriod:
		v.Add(path, fmt.Sprintf("%s is out of bounds", r),
			fmt.Sprintf("messages per 1s to %s", weir.Duration(MaxPeriod)))
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
			v.Add(at, fmt.Sprintf("%s stands there twice", id), "leave it out")
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

// list looks at a list of names or domains. check returns what is wrong with one, and the form in which it is compared.
func (v *mistakes) list(path string, all []string, check func(string) (form, msg, hint string)) {
	if !v.AtMost(path, "", len(all), MaxListed) {
		return
	}
	first := map[string]int{}
	for i, one := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		form, msg, hint := check(one)
		if msg != "" {
			v.Add(at, msg, hint)
			continue
		}
		if before, double := first[form]; double {
			v.Add(at, fmt.Sprintf("%q stands there twice", one), fmt.Sprintf("it is %s[%d] already", path, before))
			continue
		}
		first[form] = i
	}
}

func name(s string) (form, msg, hint string) {
	switch {
	case s == "":
		return "", "a name is missing", ""
	case len(s) > MaxName:
		return "", fmt.Sprintf("%.64q… is too long", s), fmt.Sprintf("at most %d bytes", MaxName)
	case strings.ContainsFunc(s, unprintable):
		return "", fmt.Sprintf("%q is not a name", s), "names have no spaces"
	}
	return s, "", ""
}

func domain(s string) (form, msg, hint string) {
	const example = "write example.org, or .example.org for everything below it too"
	bare, below := strings.CutPrefix(s, ".")
	switch {
	case bare == "":
		return "", "a domain is missing", example
	case strings.Contains(s, "@"):
		return "", fmt.Sprintf("%.64q is an address", s), example
	case strings.HasPrefix(s, "*"):
		return "", fmt.Sprintf("%.64q is not a domain", s), "write " + strings.TrimPrefix(s, "*")
	case len(s) > MaxName, strings.ContainsFunc(s, unprintable), strings.ContainsAny(s, "*/:,;<>()"),
		strings.Contains(bare, ".."), strings.HasPrefix(bare, "."), strings.HasSuffix(s, "."):
		return "", fmt.Sprintf("%.64q is not a domain", s), example
	}
	form = identify.Domain(bare)
	if below {
		form = "." + form
	}
	return form, "", ""
}

func unprintable(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
