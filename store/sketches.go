package store

import "fmt"

// A Sketch is what a reach throttle knows of a user: the known recipients, and how many are new. It is written with
// each mail, so what is long and seldom changes, the known part, is stored by itself.
type Sketch struct {
	Throttle string
	User     string // empty: what the throttle knows of all its users together
	State    []byte // as the mechanism writes it
	Flagged  bool
}

// Validate returns what is wrong with the sketch: ErrInvalid or ErrTooLarge.
func (k *Sketch) Validate() error {
	if err := checkSketched(k.Throttle, k.User); err != nil {
		return err
	}
	if len(k.State) > MaxSketch {
		return fmt.Errorf("a sketch of %d bytes, at most %d: %w", len(k.State), MaxSketch, ErrTooLarge)
	}
	return nil
}

// CheckKnown returns what is wrong with the known part of a sketch: ErrInvalid or ErrTooLarge.
func CheckKnown(throttle, user string, known []byte) error {
	if err := checkSketched(throttle, user); err != nil {
		return err
	}
	if len(known) > MaxKnownBytes {
		return fmt.Errorf("the known part of a sketch of %d bytes, at most %d: %w", len(known), MaxKnownBytes,
			ErrTooLarge)
	}
	return nil
}

// checkSketched returns the mistake in whose sketch it is.
func checkSketched(throttle, user string) error {
	return checkTexts(bounded{"the name of a throttle", throttle, MaxThrottle, true},
		bounded{"the name of a user", user, MaxUser, false})
}
