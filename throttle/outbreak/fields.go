package outbreak

import (
	"fmt"
	"strconv"

	"weir"
)

type kind uint8

const (
	textual kind = iota
	numeric
	truth
)

// A field is one of the limits, by the name that the configuration has for it.
type field struct {
	name    string
	kind    kind
	example string // of a value
	set     func(l *Limits, text string) error
	get     func(l *Limits) any // nil where it is not given
	clear   func(l *Limits)
}

var fields = []field{
	rateField("rate", "1/m", func(l *Limits) *weir.Rate { return &l.Rate }),
	rateField("multi_rate", "1/m", func(l *Limits) *weir.Rate { return &l.MultiRate }),
	countField("working_set", "5", func(l *Limits) **int { return &l.WorkingSet }),
	wordField("replace", "lru", func(l *Limits) *Replace { return &l.Replace }),
	countField("max_slack", "1", func(l *Limits) **int { return &l.MaxSlack }),
	countField("max_mslack", "15", func(l *Limits) **int { return &l.MaxMSlack }),
	countField("stop", "20", func(l *Limits) **int { return &l.Stop }),
	countField("recipients", "100", func(l *Limits) **int { return &l.Recipients }),
	wordField("large", "hold", func(l *Limits) *Large { return &l.Large }),
	{
		name: "resume", kind: textual, example: "24h",
		set: func(l *Limits, text string) error {
			if text == "never" {
				text = "0"
			}
			d, err := weir.ParseDuration(text)
			l.Resume = &d
			return err
		},
		get: func(l *Limits) any {
			if l.Resume == nil {
				return nil
			}
			return l.Resume.String()
		},
		clear: func(l *Limits) { l.Resume = nil },
	},
	countField("slow", "4", func(l *Limits) **int { return &l.Slow }),
	{
		name: "exempt", kind: truth, example: "true",
		set: func(l *Limits, text string) error {
			switch text {
			case "true", "yes":
				l.Exempt = new(true)
			case "false", "no":
				l.Exempt = new(false)
			default:
				return &weir.FieldError{Msg: fmt.Sprintf("%.64q is neither true nor false", text),
					Hint: "write true or false"}
			}
			return nil
		},
		get: func(l *Limits) any {
			if l.Exempt == nil {
				return nil
			}
			return *l.Exempt
		},
		clear: func(l *Limits) { l.Exempt = nil },
	},
}

func fieldOf(name string) (*field, error) {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i], nil
		}
	}
	known := make([]string, len(fields))
	for i := range fields {
		known[i] = fields[i].name
	}
	return nil, &weir.FieldError{Msg: fmt.Sprintf("there is no limit %.64q", name), Hint: suggest(name, known)}
}

func rateField(name, example string, of func(*Limits) *weir.Rate) field {
	return field{
		name: name, kind: textual, example: example,
		set: func(l *Limits, text string) (err error) {
			*of(l), err = weir.ParseRate(text)
			return err
		},
		get: func(l *Limits) any {
			if *of(l) == (weir.Rate{}) {
				return nil
			}
			return of(l).String()
		},
		clear: func(l *Limits) { *of(l) = weir.Rate{} },
	}
}

func countField(name, example string, of func(*Limits) **int) field {
	return field{
		name: name, kind: numeric, example: example,
		set: func(l *Limits, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil {
				return &weir.FieldError{Msg: fmt.Sprintf("%.64q is not a whole number", text), Hint: "as in " + example}
			}
			*of(l) = &n
			return nil
		},
		get: func(l *Limits) any {
			if *of(l) == nil {
				return nil
			}
			return **of(l)
		},
		clear: func(l *Limits) { *of(l) = nil },
	}
}

func wordField[T ~string](name, example string, of func(*Limits) *T) field {
	return field{
		name: name, kind: textual, example: example,
		set: func(l *Limits, text string) error {
			if text == "" {
				return &weir.FieldError{Msg: "no value", Hint: "as in " + example}
			}
			*of(l) = T(text)
			return nil
		},
		get: func(l *Limits) any {
			if *of(l) == "" {
				return nil
			}
			return string(*of(l))
		},
		clear: func(l *Limits) { *of(l) = "" },
	}
}
