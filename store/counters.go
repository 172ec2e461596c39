package store

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"
)

// Counters is what accounts have used in periods that outlast a restart.
type Counters interface {
	// Save keeps counters. A counter replaces the one with the same key, so that saving twice is harmless and an
	// account that an operator has reset stays reset. A counter of nothing (Used 0) is forgotten.
	Save(ctx context.Context, counters []Counter) error
	// Load calls each with every counter that still counts at now, in no order, until each returns an error.
	Load(ctx context.Context, now time.Time, each func(Counter) error) error
	// Prune forgets the counters that no longer count at now, and returns how many.
	Prune(ctx context.Context, now time.Time) (int, error)
}

// A Counter is what an account, or a source where there is no account, has used under one rule since a point in time.
// All fields but Used, At and Until make up its key.
//
// How a rule counts decides what it saves:
//
//	fixed window    one counter: Period is the start of the period, Used what was charged in it, Until its end
//	… of bytes      one counter: Period is the epoch, Used what was charged or owed in the period that starts At,
//	                Until when all of it is paid off
//	sliding window  one counter for each part of the window that is not empty: Period is the start of the part, Until
//	                when it leaves the window
//	steady rate     one counter: Period is the epoch, Used the nanoseconds since the epoch at which all that was
//	                charged is paid off, Until that same time
//
// Of an account that an operator of a farm has reset, all but bytes in fixed windows have the time of the reset in At.
type Counter struct {
	Throttle string `json:"throttle"` // its name in the configuration
	// what it counts; rules that count something else have another text
	Rule    string     `json:"rule"`
	Account string     `json:"account"`         // empty where there is none
	Source  netip.Addr `json:"source,omitzero"` // where there is no account
	Period  time.Time  `json:"period"`          // when it starts; never zero
	Used    int64      `json:"used"`            // never below zero
	At      time.Time  `json:"at,omitzero"`     // when Used was true, if it becomes less by itself, or began
	Until   time.Time  `json:"until"`           // when it stops counting; never zero
}

// Counts reports whether the counter matters at now.
func (c *Counter) Counts(now time.Time) bool { return now.Before(c.Until) }

// Validate returns what is wrong with the counter: ErrInvalid or ErrTooLarge.
func (c Counter) Validate() error {
	if err := checkTexts(bounded{"the name of a throttle", c.Throttle, MaxThrottle, true},
		bounded{"a rule", c.Rule, MaxRule, true},
		bounded{"the id of an account", c.Account, MaxAccount, false}); err != nil {
		return err
	}
	switch {
	case (c.Account == "") != c.Source.IsValid():
		return fmt.Errorf("a counter is of an account or of a source: %w", ErrInvalid)
	case c.Source.Zone() != "" || c.Source.Is4In6():
		return fmt.Errorf("the source %s is not written as it should be: %w", c.Source, ErrInvalid)
	case c.Used < 0:
		return fmt.Errorf("%d used: %w", c.Used, ErrInvalid)
	}
	return cmp.Or(checkTime("the period from", c.Period), checkMaybe("as of", c.At), checkTime("until", c.Until))
}

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
