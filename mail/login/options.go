package login

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"weir"
)

// Bounds on what an operator may write.
const (
	MaxWorkers    = 1024
	MaxWaiting    = 100_000
	MaxRemembered = 10_000_000
	MaxRemember   = 24 * time.Hour
)

// Options configure a Desk.
type Options struct {
	// How many passwords are verified at once; each takes 19 MiB meanwhile. Default: half of the processors, and at
	// least one.
	Workers int `yaml:"workers"`
	// How many log-ins may wait for that. One more is turned away. Default 64.
	Waiting int `yaml:"waiting"`
	// How long a log-in is remembered that was right, so that the next one costs next to nothing. It is forgotten at
	// once when the password changes. Less than nothing: not at all. Default 10m.
	Remember time.Duration `yaml:"remember"`
	// How many log-ins are remembered, at most; one more pushes out the oldest. Default 10000.
	Remembered int `yaml:"remembered"`
	// What tells the time. Default: the machine's clock.
	Clock Clock `yaml:"-"`
}

// A Clock tells the time.
type Clock interface{ Now() time.Time }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.Workers = cmp.Or(o.Workers, max(1, runtime.NumCPU()/2))
	o.Waiting = cmp.Or(o.Waiting, 64)
	o.Remember = cmp.Or(o.Remember, 10*time.Minute)
	o.Remembered = cmp.Or(o.Remembered, 10_000)
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var all []error
	o = o.WithDefaults()
	within := func(path string, n, most int) {
		if n < 1 || n > most {
			all = append(all, &weir.FieldError{Path: path, Msg: fmt.Sprintf("%d is out of bounds", n),
				Hint: fmt.Sprintf("1 to %d", most)})
		}
	}
	within("workers", o.Workers, MaxWorkers)
	within("waiting", o.Waiting, MaxWaiting)
	within("remembered", o.Remembered, MaxRemembered)
	if o.Remember > MaxRemember {
		all = append(all, &weir.FieldError{Path: "remember", Msg: fmt.Sprintf("%s is out of bounds", o.Remember),
			Hint: fmt.Sprintf("at most %s", MaxRemember)})
	}
	return errors.Join(all...)
}

// bounded returns the options with everything within its bounds, for callers who have not asked Validate.
func (o Options) bounded() Options {
	o = o.WithDefaults()
	o.Workers = min(max(o.Workers, 1), MaxWorkers)
	o.Waiting = min(max(o.Waiting, 1), MaxWaiting)
	o.Remembered = min(max(o.Remembered, 1), MaxRemembered)
	o.Remember = min(o.Remember, MaxRemember)
	return o
}
