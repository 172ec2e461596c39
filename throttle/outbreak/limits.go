package outbreak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"weir"
)

// Limits are what holds for one user instead of what holds for all. What is left out is not changed.
type Limits struct {
	// One recipient per time.
	Rate weir.Rate `yaml:"rate"`
	// The same for mails to several recipients.
	MultiRate weir.Rate `yaml:"multi_rate"`
	// How many recipients the working set has room for.
	WorkingSet *int `yaml:"working_set"`
	// How the working set makes room: lru or fifo.
	Replace Replace `yaml:"replace"`
	// The most mails to new recipients that may pass at once.
	MaxSlack *int `yaml:"max_slack"`
	// The most recipients of mails to several that may pass at once.
	MaxMSlack *int `yaml:"max_mslack"`
	// How many recipients may wait; one more stops the user.
	Stop *int `yaml:"stop"`
	// How many recipients one mail may have.
	Recipients *int `yaml:"recipients"`
	// What becomes of a single mail that is large enough to stop the user: stop or hold.
	Large Large `yaml:"large"`
	// After how long a stopped user is tried again; 0: never.
	Resume *weir.Duration `yaml:"resume"`
	// How many times as long the clock takes in slow motion.
	Slow *int `yaml:"slow"`
	// Whether everything passes, for bulk mailers.
	Exempt *bool `yaml:"exempt"`
}

// MaxLimitsText is the longest text of limits that ParseLimits reads.
const MaxLimitsText = 1024

// ParseLimits reads what String writes: a JSON object with the keys of the configuration, as in
// {"rate":"5/m","stop":50}. No text at all changes nothing. Mistakes are weir.FieldErrors.
func ParseLimits(text string) (Limits, error) {
	var l Limits
	if strings.TrimSpace(text) == "" {
		return l, nil
	}
	if len(text) > MaxLimitsText {
		return l, &weir.FieldError{
			Msg:  fmt.Sprintf("%d bytes are too long for limits", len(text)),
			Hint: fmt.Sprintf("at most %d", MaxLimitsText),
		}
	}
	wrong := &weir.FieldError{Msg: "not limits", Hint: `write {"rate": "5/m", "stop": 50}`}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return l, wrong
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return Limits{}, wrong
		}
		name := key.(string) // a decoder returns nothing else here
		value, err := d.Token()
		if err != nil {
			return Limits{}, wrong
		}
		if seen[name] {
			return Limits{}, &weir.FieldError{Path: name, Msg: "is there twice"}
		}
		seen[name] = true
		if err := l.decode(name, value); err != nil {
			return Limits{}, err
		}
	}
	if _, err := d.Token(); err != nil {
		return Limits{}, wrong
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Limits{}, wrong
	}
	return l, nil
}

func (l *Limits) decode(name string, value json.Token) error {
	f, err := fieldOf(name)
	if err != nil {
		return err
	}
	var text string
	fits := false
	switch v := value.(type) {
	case string:
		text, fits = v, f.kind == textual
	case json.Number:
		text, fits = v.String(), f.kind == numeric
	case bool:
		text, fits = strconv.FormatBool(v), f.kind == truth
	}
	if !fits {
		example := f.example
		if f.kind == textual {
			example = strconv.Quote(example)
		}
		return &weir.FieldError{Path: name, Msg: "not a value of its kind",
			Hint: fmt.Sprintf("write {%q: %s}", name, example)}
	}
	return l.set(f, text)
}

// Set changes one limit as people write it on a command line: "stop=50". Without a value, "stop=", or as
// "stop=default", the limit is taken back. A mistake, which is a weir.FieldError, changes nothing.
func (l *Limits) Set(pair string) error {
	name, value, found := strings.Cut(pair, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	f, err := fieldOf(name)
	if err != nil {
		return err
	}
	if !found {
		return &weir.FieldError{Path: name, Msg: "no value",
			Hint: fmt.Sprintf("write %s=%s; %s= takes it back", name, f.example, name)}
	}
	if value == "" || value == "default" {
		f.clear(l)
		return nil
	}
	return l.set(f, value)
}

func (l *Limits) set(f *field, text string) error {
	changed := *l
	if err := f.set(&changed, text); err != nil {
		return weir.Under(f.name, err)
	}
	// What was there before has been looked at before.
	only := Limits{}
	_ = f.set(&only, text)
	if err := only.Validate(); err != nil {
		return err
	}
	*l = changed
	return nil
}

// String writes the limits as JSON, in the order of the configuration; nothing at all where there are none.
func (l Limits) String() string {
	var b bytes.Buffer
	for i := range fields {
		value := fields[i].get(&l)
		if value == nil {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		text, _ := json.Marshal(value) // a string, a number or a truth value
		fmt.Fprintf(&b, "%q:%s", fields[i].name, text)
	}
	if b.Len() == 0 {
		return ""
	}
	return "{" + b.String() + "}"
}

// Validate returns every mistake in the limits, as joined weir.FieldErrors.
func (l Limits) Validate() error {
	var v mistakes
	v.rate("rate", l.Rate)
	v.rate("multi_rate", l.MultiRate)
	v.between("working_set", l.WorkingSet, 0, MaxWorkingSet)
	v.oneOf("replace", string(l.Replace), "", string(LRU), string(FIFO))
	v.between("max_slack", l.MaxSlack, 0, MaxCredit)
	v.between("max_mslack", l.MaxMSlack, 0, MaxCredit)
	v.between("stop", l.Stop, 0, MaxStop)
	v.between("recipients", l.Recipients, 1, MaxRecipients)
	v.oneOf("large", string(l.Large), "", string(LargeStop), string(LargeHold))
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
