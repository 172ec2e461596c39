package simulate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/throttle/outbreak"
)

// Bounds of what is tried on one log.
const (
	MaxSweeps      = 8
	MaxSweepValues = 64
)

// A SweepSpec is one parameter of the mail throttle, and the values of it that are tried on a log, all in one pass.
type SweepSpec struct {
	Parameter string
	Values    []SweepValue
}

// A SweepValue is one of them.
type SweepValue struct {
	Text  string        // as an operator writes it
	Count int           // of working_set, max_slack, max_mslack, stop
	Every time.Duration // of rate, multi_rate
}

// A sweepable is a parameter that can be swept.
type sweepable struct {
	name, title string // the latter of an axis
	most        int
	rate        bool
	count       func(p *outbreak.Params) *int
	every       func(p *outbreak.Params) time.Duration
}

var sweepables = []sweepable{
	{name: "working_set", title: "working set (recipients)", most: outbreak.MaxWorkingSet,
		count: func(p *outbreak.Params) *int { return &p.WorkingSet }},
	{name: "max_slack", title: "max_slack (messages)", most: outbreak.MaxCredit,
		count: func(p *outbreak.Params) *int { return &p.MaxSlack }},
	{name: "max_mslack", title: "max_mslack (recipients)", most: outbreak.MaxCredit,
		count: func(p *outbreak.Params) *int { return &p.MaxMSlack }},
	{name: "rate", title: "rate (recipients a minute)", rate: true,
		every: func(p *outbreak.Params) time.Duration { return p.Every }},
	{name: "multi_rate", title: "multi_rate (recipients a minute)", rate: true,
		every: func(p *outbreak.Params) time.Duration { return p.MultiEvery }},
	{name: "stop", title: "stop (recipients waiting)", most: outbreak.MaxStop,
		count: func(p *outbreak.Params) *int { return &p.Stop }},
}

// of is where parameters stand in a plot: the number, or recipients a minute.
func (s sweepable) of(p ParamsInfo) float64 {
	switch {
	case s.count != nil:
		return float64(*s.count(&p.Mail))
	case s.every != nil:
		return SweepValue{Every: s.every(&p.Mail)}.x()
	}
	return math.NaN()
}

func sweepableOf(name string) (s sweepable, found bool) {
	i := slices.IndexFunc(sweepables, func(s sweepable) bool { return s.name == name })
	if i >= 0 {
		s = sweepables[i]
	}
	return s, i >= 0
}

// SweepParameters are the names of those that can be swept.
func SweepParameters() (names []string) {
	for _, s := range sweepables {
		names = append(names, s.name)
	}
	return names
}

// with returns p with a value of the parameter. A rate holds for mails to several too where it did so before.
func (v SweepValue) with(parameter string, p outbreak.Params) outbreak.Params {
	switch s, _ := sweepableOf(parameter); {
	case parameter == "rate" && p.MultiEvery == p.Every:
		p.Every, p.MultiEvery = v.Every, v.Every
	case parameter == "rate":
		p.Every = v.Every
	case parameter == "multi_rate":
		p.MultiEvery = v.Every
	case s.count != nil:
		*s.count(&p) = v.Count
	}
	return p
}

// x is where the value stands in a plot: the number, or recipients a minute.
func (v SweepValue) x() float64 {
	if v.Every > 0 {
		return rounded(float64(time.Minute)/float64(v.Every), 1e6)
	}
	return float64(v.Count)
}

// ParseSweep reads a sweep as it is written in a command: working_set=0..10, max_mslack=0..30/5 (each fifth),
// stop=5,10,20, rate=1/5m,30/h,1/m..5/m. Mistakes are weir.FieldErrors.
func ParseSweep(text string) (SweepSpec, error) {
	name, list, found := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	what, known := sweepableOf(name)
	switch {
	case !known:
		return SweepSpec{}, unknownParameter(name)
	case !found || strings.TrimSpace(list) == "":
		return SweepSpec{}, &weir.FieldError{Path: name, Msg: "values are missing", Hint: "write " + what.example()}
	}
	spec := SweepSpec{Parameter: name}
	for part := range strings.SplitSeq(list, ",") {
		values, err := what.parse(strings.TrimSpace(part))
		if err != nil {
			return SweepSpec{}, weir.Under(name, err)
		}
		spec.Values = append(spec.Values, values...)
		if len(spec.Values) > MaxSweepValues {
			return SweepSpec{}, tooManyValues(name)
		}
	}
	return spec, spec.Validate()
}

func unknownParameter(name string) error {
	hint := "one of " + strings.Join(SweepParameters(), ", ")
	if near := weir.Nearest(name, SweepParameters()...); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return &weir.FieldError{Path: "sweep", Msg: fmt.Sprintf("unknown parameter %.64q", name), Hint: hint}
}

func tooManyValues(name string) error {
	return &weir.FieldError{Path: name, Msg: "too many values",
		Hint: fmt.Sprintf("at most %d; 0..100/10 takes each tenth", MaxSweepValues)}
}

// Validate returns every mistake in a sweep, as joined weir.FieldErrors.
func (s SweepSpec) Validate() error {
	var m weir.Mistakes
	what, known := sweepableOf(s.Parameter)
	if !known {
		return unknownParameter(s.Parameter)
	}
	switch n := len(s.Values); {
	case n == 0:
		m.Add(s.Parameter, "values are missing", "write "+what.example())
	case n > MaxSweepValues:
		return tooManyValues(s.Parameter)
	}
	for i, v := range s.Values {
		if err := what.check(v); err != nil {
			m.Under(s.Parameter, err)
			continue
		}
		for _, before := range s.Values[:i] {
			if before.Count == v.Count && before.Every == v.Every {
				m.Add(s.Parameter, fmt.Sprintf("%s is there twice", v.Text), "leave one out")
				break
			}
		}
	}
	return m.Err()
}

// check requires a value that a configuration may have.
func (s sweepable) check(v SweepValue) error {
	switch {
	case s.rate && v.Every < outbreak.MinPeriod:
		return &weir.FieldError{Msg: fmt.Sprintf("%s is too fast", v.Text), Hint: "1000/s is the most"}
	case s.rate && v.Every > outbreak.MaxPeriod:
		return &weir.FieldError{Msg: fmt.Sprintf("%s is too slow", v.Text),
			Hint: fmt.Sprintf("1/%s is the least", weir.Duration(outbreak.MaxPeriod))}
	case !s.rate && (v.Count < 0 || v.Count > s.most):
		return &weir.FieldError{Msg: fmt.Sprintf("%d is out of bounds", v.Count),
			Hint: fmt.Sprintf("between 0 and %d", s.most)}
	}
	return nil
}

func (s sweepable) example() string {
	if s.rate {
		return s.name + "=30/h,1/m,2/m"
	}
	return s.name + "=0..10, or =5,10,20"
}

// parse reads a value, or a range of them.
func (s sweepable) parse(text string) ([]SweepValue, error) {
	from, to, ranged := strings.Cut(text, "..")
	switch {
	case s.rate && ranged:
		return rateRange(from, to)
	case s.rate:
		r, err := weir.ParseRate(text)
		if err != nil {
			return nil, err
		}
		return []SweepValue{rateValue(r)}, nil
	case ranged:
		return s.countRange(from, to)
	}
	n, err := s.number(text)
	return []SweepValue{{Text: strconv.Itoa(n), Count: n}}, err
}

func (s sweepable) number(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, &weir.FieldError{Msg: fmt.Sprintf("%.64q is not a number", text), Hint: "write " + s.example()}
	}
	return n, s.check(SweepValue{Count: n})
}

// countRange reads what stands on both sides of "..", with a step perhaps.
func (s sweepable) countRange(from, to string) (values []SweepValue, err error) {
	to, by, stepped := strings.Cut(to, "/")
	first, err := s.number(from)
	if err != nil {
		return nil, err
	}
	last, err := s.number(to)
	if err != nil {
		return nil, err
	}
	step := 1
	if stepped {
		if step, err = strconv.Atoi(strings.TrimSpace(by)); err != nil || step < 1 || step > outbreak.MaxCredit {
			return nil, &weir.FieldError{Msg: fmt.Sprintf("%.64q is not a step", by), Hint: "0..30/5 takes each fifth"}
		}
	}
	if last < first {
		return nil, &weir.FieldError{Msg: fmt.Sprintf("%d..%d goes down", first, last),
			Hint: fmt.Sprintf("write %d..%d", last, first)}
	}
	// One more than may be is enough to see that they are too many.
	for n := first; n <= last && len(values) <= MaxSweepValues; n += step {
		values = append(values, SweepValue{Text: strconv.Itoa(n), Count: n})
	}
	return values, nil
}

// rateRange reads 1/m..5/m: so many in the same time.
func rateRange(from, to string) (values []SweepValue, err error) {
	first, err := weir.ParseRate(from)
	if err != nil {
		return nil, err
	}
	last, err := weir.ParseRate(to)
	if err != nil {
		return nil, err
	}
	if first.Per != last.Per || last.Count < first.Count {
		return nil, &weir.FieldError{
			Msg:  fmt.Sprintf("%s..%s is not a range", first, last),
			Hint: "write 1/m..5/m, or list the rates: 1/5m,1/m,5/m",
		}
	}
	for n := first.Count; n <= last.Count && len(values) <= MaxSweepValues; n++ {
		values = append(values, rateValue(weir.Rate{Count: n, Per: first.Per}))
	}
	return values, nil
}

func rateValue(r weir.Rate) SweepValue {
	v := SweepValue{Text: r.String(), Every: math.MaxInt64} // none at all is too slow
	if r.Count > 0 {
		v.Every = r.Per / time.Duration(r.Count)
	}
	return v
}

// DefaultSweeps are those of a report: the document's figures, and false stops by the threshold.
func DefaultSweeps() (all []SweepSpec) {
	for _, text := range []string{
		"working_set=0..10", "max_mslack=0..30/5", "rate=1/5m,1/2m,1/m..5/m", "stop=5..30/5,40,60",
	} {
		spec, err := ParseSweep(text)
		if err != nil {
			panic(err) // they are written just above
		}
		all = append(all, spec)
	}
	return all
}

// rounded rounds a number to parts of one, so that it has few digits.
func rounded(v, parts float64) float64 { return math.Round(v*parts) / parts }
