package outbreak

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir"
)

// Limits are what holds for one user instead of what holds for all. What is left out is not changed.
type Limits struct {
	// One recipient per time.
	Rate weir.Rate `yaml:"rate" example:"1/m"`
	// The same for messages to several recipients.
	MultiRate weir.Rate `yaml:"multi_rate" example:"1/m"`
	// How many recipients the working set has room for.
	WorkingSet *int `yaml:"working_set" example:"5"`
	// How the working set makes room: lru or fifo.
	Replace Replace `yaml:"replace" example:"lru"`
	// How many messages to new recipients may pass at once.
	MaxSlack *int `yaml:"max_slack" example:"1"`
	// How many recipients of messages to several may pass at once.
	MaxMSlack *int `yaml:"max_mslack" example:"15"`
	// How many recipients may wait; one more stops the user.
	Stop *int `yaml:"stop" example:"20"`
	// How many recipients one message may have.
	Recipients *int `yaml:"recipients" example:"100"`
	// What happens to a single message that is large enough to stop the user: stop or hold.
	Large Large `yaml:"large" example:"hold"`
	// After how long a stopped user may send again, in slow motion; 0: never.
	Resume *weir.Duration `yaml:"resume" example:"24h"`
	// How many times as long the clock takes in slow motion.
	Slow *int `yaml:"slow" example:"4"`
	// Whether everything passes, for bulk mailers.
	Exempt *bool `yaml:"exempt" example:"true"`
}

// MaxLimitsText is the longest text of limits that ParseLimits reads.
const MaxLimitsText = 1024

// ParseLimits reads what String writes: a JSON object with the keys of the configuration, as in
// {"rate":"5/m","stop":50}. An empty text changes nothing. Mistakes are weir.FieldErrors.
func ParseLimits(text string) (Limits, error) {
	if strings.TrimSpace(text) == "" {
		return Limits{}, nil
	}
	if len(text) > MaxLimitsText {
		return Limits{}, &weir.FieldError{Msg: fmt.Sprintf("%d bytes are too long for limits", len(text)),
			Hint: fmt.Sprintf("at most %d", MaxLimitsText)}
	}
	wrong := &weir.FieldError{Msg: "not limits", Hint: `write {"rate": "5/m", "stop": 50}`}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if open, _ := d.Token(); open != json.Delim('{') {
		return Limits{}, wrong
	}
	var l Limits
	for d.More() {
		key, _ := d.Token()
		name, ok := key.(string)
		value, err := d.Token()
		if !ok || err != nil {
			return Limits{}, wrong
		}
		if err := l.decode(name, value); err != nil {
			return Limits{}, err
		}
	}
	_, err := d.Token()
	if _, end := d.Token(); err != nil || !errors.Is(end, io.EOF) {
		return Limits{}, wrong
	}
	return l, nil
}

func (l *Limits) decode(name string, token json.Token) error {
	value, example, err := l.limit(name)
	if err != nil {
		return err
	}
	if !value.IsZero() {
		return &weir.FieldError{Path: name, Msg: "is there twice"}
	}
	var fits bool
	switch value.Interface().(type) {
	case *int:
		_, fits = token.(json.Number)
	case *bool:
		_, fits = token.(bool)
	default:
		_, fits = token.(string)
		example = strconv.Quote(example)
	}
	if !fits {
		return &weir.FieldError{Path: name, Msg: "not a value of its kind",
			Hint: fmt.Sprintf("write {%q: %s}", name, example)}
	}
	return l.set(name, fmt.Sprint(token))
}

// Set changes one limit as people write it on a command line: "stop=50". Without a value, "stop=", or as
// "stop=default", the limit is taken back. A mistake, which is a weir.FieldError, changes nothing.
func (l *Limits) Set(pair string) error {
	name, text, found := strings.Cut(pair, "=")
	name, text = strings.TrimSpace(name), strings.TrimSpace(text)
	value, example, err := l.limit(name)
	if err != nil {
		return err
	}
	if !found {
		return &weir.FieldError{Path: name, Msg: "no value",
			Hint: fmt.Sprintf("write %s=%s; %s= takes it back", name, example, name)}
	}
	if text == "" || text == "default" {
		value.SetZero()
		return nil
	}
	return l.set(name, text)
}

// limit returns the field of a limit, by the name that the configuration has for it, and an example of a value.
func (l *Limits) limit(name string) (value reflect.Value, example string, err error) {
	var known []string
	for field, value := range reflect.ValueOf(l).Elem().Fields() {
		if known = append(known, field.Tag.Get("yaml")); known[len(known)-1] == name {
			return value, field.Tag.Get("example"), nil
		}
	}
	return value, "", &weir.FieldError{Msg: fmt.Sprintf("there is no limit %.64q", name),
		Hint: weir.Suggest(name, known...)}
}

// set changes a limit that exists. It validates only that one: the others were validated when they were set.
func (l *Limits) set(name, text string) error {
	var only Limits
	value, example, _ := only.limit(name)
	if err := read(value, text, example); err != nil {
		return weir.Under(name, err)
	}
	if err := only.Validate(); err != nil {
		return err
	}
	into, _, _ := l.limit(name)
	into.Set(value)
	return nil
}

func read(into reflect.Value, text, example string) (err error) {
	switch p := into.Addr().Interface().(type) {
	case *weir.Rate:
		*p, err = weir.ParseRate(text)
	case **weir.Duration:
		if text == "never" {
			text = "0"
		}
		*p = new(weir.Duration)
		**p, err = weir.ParseDuration(text)
	case **int:
		*p = new(int)
		if **p, err = strconv.Atoi(text); err != nil {
			return &weir.FieldError{Msg: fmt.Sprintf("%.64q is not a whole number", text), Hint: "as in " + example}
		}
	case **bool:
		at := slices.Index([]string{"false", "no", "true", "yes"}, text)
		if at < 0 {
			return &weir.FieldError{Msg: fmt.Sprintf("%.64q is neither true nor false", text),
				Hint: "write true or false"}
		}
		*p = new(at >= 2)
	default: // a word
		if text == "" {
			return &weir.FieldError{Msg: "no value", Hint: "as in " + example}
		}
		into.SetString(text)
	}
	return err
}

// String writes the limits as JSON, in the order of the configuration. It is empty where there are none.
func (l Limits) String() string {
	var all []string
	for field, value := range reflect.ValueOf(l).Fields() {
		if !value.IsZero() {
			text, _ := json.Marshal(value.Interface()) // a string, a number or a truth value
			all = append(all, fmt.Sprintf("%q:%s", field.Tag.Get("yaml"), text))
		}
	}
	if all == nil {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}

// Validate returns every mistake in the limits, as joined weir.FieldErrors.
func (l Limits) Validate() error {
	var v mistakes
	v.rate("rate", l.Rate)
	v.rate("multi_rate", l.MultiRate)
	v.between("working_set", l.WorkingSet, 0, MaxWorkingSet)
	v.OneOf("replace", string(l.Replace), string(LRU), string(FIFO))
	v.between("max_slack", l.MaxSlack, 0, MaxCredit)
	v.between("max_mslack", l.MaxMSlack, 0, MaxCredit)
	v.between("stop", l.Stop, 0, MaxStop)
	v.between("recipients", l.Recipients, 1, MaxRecipients)
	v.OneOf("large", string(l.Large), string(LargeStop), string(LargeHold))
	if r := l.Resume; r != nil && *r != 0 && (r.Std() < MinResume || r.Std() > MaxPeriod) {
		v.Add("resume", fmt.Sprintf("%s is out of bounds", *r),
			fmt.Sprintf("between %s and %s, or 0 for never", weir.Duration(MinResume), weir.Duration(MaxPeriod)))
	}
	v.between("slow", l.Slow, 1, MaxSlow)
	return v.Err()
}

func (l *Limits) apply(p *Params) {
	if l.Rate != (weir.Rate{}) {
		p.Every = every(l.Rate)
	}
	if l.MultiRate != (weir.Rate{}) {
		p.MultiEvery = every(l.MultiRate)
	}
	replace(&p.WorkingSet, l.WorkingSet)
	if l.Replace != "" {
		p.FIFO = l.Replace == FIFO
	}
	replace(&p.MaxSlack, l.MaxSlack)
	replace(&p.MaxMSlack, l.MaxMSlack)
	replace(&p.Stop, l.Stop)
	replace(&p.Recipients, l.Recipients)
	if l.Large != "" {
		p.HoldLarge = l.Large == LargeHold
	}
	if l.Resume != nil {
		p.Resume = l.Resume.Std()
	}
	replace(&p.Slow, l.Slow)
	replace(&p.Exempt, l.Exempt)
}

func replace[T any](what, with *T) {
	if with != nil {
		*what = *with
	}
}

func every(r weir.Rate) time.Duration {
	if r.Count <= 0 {
		return 0
	}
	return r.Per / time.Duration(r.Count)
}
