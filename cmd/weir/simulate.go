package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir"
	"weir/config"
	"weir/lab/simulate"
	"weir/throttle/outbreak"
	"weir/throttle/reach"
)

type simulateCommand struct {
	Virus simulateVirusCommand `cmd:"" help:"Show how a mail throttle stops a virus or a stolen account." example:"weir simulate virus --rate 60/m"`
	Mail  simulateMailCommand  `cmd:"" help:"Show which of your users a mail throttle would have delayed or stopped, from a mail log." example:"weir simulate mail --log /var/log/mail.log"`
	Reach simulateReachCommand `cmd:"" help:"Show which of your users reach would have flagged for writing to too many new people, from a mail log." example:"weir simulate reach --log /var/log/mail.log"`
	Flood simulateFloodCommand `cmd:"" help:"Show what people get from a service while it is flooded, and what they pay for it." example:"weir simulate flood --capacity 50/s --flood 1000/s"`
}

// A rule is where the parameters of a simulated throttle come from.
type rule struct {
	Config   string `short:"c" placeholder:"FILE" help:"Use the throttle of this configuration. Default: weir's defaults."`
	Throttle string `placeholder:"NAME" help:"The throttle of the configuration to use. Default: the only one of its kind."`
}

// validate finds flags that do not go together.
func (r rule) validate() error {
	if r.Throttle != "" && r.Config == "" {
		return errors.New("--throttle: there is no configuration to find it in (write -c weir.yaml, too)")
	}
	return nil
}

// load reads the configuration, which needs no gate. It returns nil if none is given.
func (r rule) load() (*config.Config, error) {
	if r.Config == "" {
		return nil, nil
	}
	cfg, err := config.LoadStudy(r.Config)
	if err != nil {
		return nil, err
	}
	full := cfg.WithDefaults()
	return &full, nil
}

// pick finds the throttle that the flags mean, among those of one kind.
func pick[T any](r rule, cfg *config.Config, kind string, of func(config.Throttle) *T) (*T, error) {
	found := map[string]*T{}
	for name, t := range cfg.Throttles {
		if o := of(t); o != nil {
			found[name] = o
		}
	}
	names := slices.Sorted(maps.Keys(found))
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s has no %s throttle (leave out -c for the defaults)", r.Config, kind)
	case r.Throttle != "" && found[r.Throttle] == nil:
		hint := "there is " + strings.Join(names, ", ")
		if near := weir.Nearest(r.Throttle, names...); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return nil, fmt.Errorf("--throttle: %s has no %s throttle %q (%s)", r.Config, kind, r.Throttle, hint)
	case r.Throttle != "":
		return found[r.Throttle], nil
	case len(names) > 1:
		return nil, fmt.Errorf("%s has %d %s throttles: say which with --throttle (%s)", r.Config, len(names), kind,
			strings.Join(names, ", "))
	}
	return found[names[0]], nil
}

// chosen returns the options of the throttle that the flags mean, or weir's defaults without a configuration.
func chosen[T interface{ WithDefaults() T }](r rule, kind string, of func(config.Throttle) *T) (T, error) {
	o := new(T)
	cfg, err := r.load()
	if err == nil && cfg != nil {
		o, err = pick(r, cfg, kind, of)
	}
	if err != nil {
		return *new(T), err
	}
	return (*o).WithDefaults(), nil
}

func (r rule) mail() (outbreak.Options, error) {
	return chosen(r, "mail", func(t config.Throttle) *outbreak.Options { return t.Mail })
}

func (r rule) reach() (reach.Options, error) {
	return chosen(r, "reach", func(t config.Throttle) *reach.Options { return t.Reach })
}

// checkUsers checks how many users are to be listed.
func checkUsers(n int) error {
	if n < 0 || n > simulate.MaxWorst {
		return fmt.Errorf("--users: %d is out of bounds (0 to %d)", n, simulate.MaxWorst)
	}
	return nil
}

// mailLimits are parameters of a mail throttle that replace those of the configuration.
type mailLimits struct {
	WorkingSet *int       `placeholder:"N" help:"Try this size of the working set."`
	Rate       *weir.Rate `placeholder:"RATE" help:"Try this rate, such as 2/m, for messages to one and to several recipients."`
	MaxSlack   *int       `placeholder:"N" help:"Try this slack for messages to one recipient."`
	MaxMSlack  *int       `name:"max-mslack" placeholder:"N" help:"Try this slack for messages to several recipients."`
	Stop       *int       `placeholder:"N" help:"Try this number of waiting recipients; more stop a user."`
}

func (l mailLimits) limits() outbreak.Limits {
	out := outbreak.Limits{WorkingSet: l.WorkingSet, MaxSlack: l.MaxSlack, MaxMSlack: l.MaxMSlack, Stop: l.Stop}
	if l.Rate != nil {
		out.Rate = *l.Rate
	}
	return out
}

// validate finds parameters that no configuration may have.
func (l mailLimits) validate() error {
	if l.Rate != nil && l.Rate.Count == 0 {
		return errors.New("--rate: at this rate waiting messages never leave (write 1/m)")
	}
	return asFlags(l.limits().Validate())
}

// over puts the parameters into options. Users with limits of their own keep those.
func (l mailLimits) over(o outbreak.Options) outbreak.Options {
	if l.Rate != nil {
		o.Rate, o.MultiRate = *l.Rate, weir.Rate{}
	}
	for _, p := range []struct{ to, from **int }{
		{&o.WorkingSet, &l.WorkingSet}, {&o.MaxSlack, &l.MaxSlack}, {&o.MaxMSlack, &l.MaxMSlack}, {&o.Stop, &l.Stop},
	} {
		if *p.from != nil {
			*p.to = *p.from
		}
	}
	return o
}

// asFlags turns errors about fields into errors about the flags of the same names.
func asFlags(err error) error {
	var all []error
	for _, mistake := range weir.FieldErrors(err) {
		flag := *mistake
		flag.Path = strings.TrimPrefix(strings.ReplaceAll(flag.Path, "_", "-"), "stamp.")
		all = append(all, fmt.Errorf("--%w", &flag))
	}
	return errors.Join(all...)
}

// capital begins a sentence.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
