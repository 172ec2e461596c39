package store

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// MaxCeilingState is how long State of a Ceiling may be, in bytes.
const MaxCeilingState = 512

// Ceilings is what this node may have been granted of limits that an engine counts for all nodes.
type Ceilings interface {
	// Save keeps ceilings, and returns when they are on the disk. A ceiling replaces the one of the same limit.
	Save(ctx context.Context, ceilings []Ceiling) error
	// Forget removes ceilings, unless another run has replaced them. Only the limit and the run count.
	Forget(ctx context.Context, ceilings []Ceiling) error
	// Load calls each with every ceiling of a throttle that still counts at now, those of the latest calls first, until
	// each returns an error.
	Load(ctx context.Context, throttle string, now time.Time, each func(Ceiling) error) error
	// Prune forgets the ceilings that no longer count at now, and returns how many.
	Prune(ctx context.Context, now time.Time) (int, error)
}

// A Ceiling is at or above what a node has granted of one limit of an account, or of a source where there is no
// account. Throttle, Rule, Account and Source make up its key.
type Ceiling struct {
	Throttle string
	Rule     string // what the limit counts
	Account  string // empty where there is none
	Source   netip.Addr
	Run      string // by which the engine knows who was granted it
	State    []byte // what the engine said of the limit then, as it writes it
	Slice    int64  // of the window, in which it was granted
	Used     int64  // at most so much
	Seq      int64  // of the run's last call
	Accepted bool   // the upstream has accepted the account
	Until    time.Time
}

// Validate returns what is wrong with the ceiling: ErrInvalid or ErrTooLarge.
func (c Ceiling) Validate() error {
	if err := checkTexts(bounded{"the name of a throttle", c.Throttle, MaxThrottle, true},
		bounded{"a rule", c.Rule, MaxRule, true}, bounded{"a run", c.Run, MaxRule, true},
		bounded{"the id of an account", c.Account, MaxAccount, false}); err != nil {
		return err
	}
	switch {
	case (c.Account == "") != c.Source.IsValid():
		return fmt.Errorf("a ceiling is of an account or of a source: %w", ErrInvalid)
	case c.Source.Zone() != "" || c.Source.Is4In6():
		return fmt.Errorf("the source %s is not written as it should be: %w", c.Source, ErrInvalid)
	case len(c.State) > MaxCeilingState:
		return fmt.Errorf("a state of %d bytes, at most %d: %w", len(c.State), MaxCeilingState, ErrTooLarge)
	case c.Used < 0 || c.Slice < 0 || c.Seq < 0:
		return fmt.Errorf("%d used of slice %d, call %d: %w", c.Used, c.Slice, c.Seq, ErrInvalid)
	}
	return checkTime("until", c.Until)
}
