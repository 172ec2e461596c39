package login

import (
	"cmp"
	"runtime"
	"time"
)

// Bounds of the options.
const (
	MaxWorkers    = 1024
	MaxWaiting    = 100_000
	MaxRemembered = 10_000_000
	MaxRemember   = 24 * time.Hour
)

// Options configure a Verifier. New moves what is out of bounds to the nearest bound.
type Options struct {
	// How many passwords are verified at once. Each takes 19 MiB. Default: half of the processors, and at least one.
	Workers int
	// How many logins of strangers may wait, and sixteen times as many of users who are known. One more gets ErrBusy.
	// Default 64.
	Waiting int
	// How long a right password is remembered, so that the next login costs next to nothing. A changed password is
	// forgotten at once. Negative: not at all. Default 10m.
	Remember time.Duration
	// How many logins are remembered. One more pushes out the oldest. Default 10000.
	Remembered int
	// How much memory, in KiB, a new password takes, and the attempt to log in as an unknown user. Default 19456. Tests
	// that take very many passwords set less: one with 8 takes no time. Known users take what their stored hash says.
	HashMemory int
	// Default: the machine's clock.
	Clock Clock
}

// A Clock tells the time.
type Clock interface{ Now() time.Time }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (o Options) withDefaults() Options {
	o.Workers = min(max(cmp.Or(o.Workers, runtime.NumCPU()/2), 1), MaxWorkers)
	o.Waiting = min(max(cmp.Or(o.Waiting, 64), 1), MaxWaiting)
	o.Remember = min(cmp.Or(o.Remember, 10*time.Minute), MaxRemember)
	o.Remembered = min(max(cmp.Or(o.Remembered, 10_000), 1), MaxRemembered)
	o.HashMemory = min(max(cmp.Or(o.HashMemory, hashMemory), 8*hashLanes), maxMemory)
	o.Clock = cmp.Or[Clock](o.Clock, systemClock{})
	return o
}
