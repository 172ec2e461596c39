package store

import "fmt"

// A Sketch is what a reach throttle knows of a user: the known recipients, and how many are new. It is written with
// each mail. The known part is long and seldom changes, so it is stored separately.
type Sketch struct {
	Throttle string
	User     string // empty: what the throttle knows of all its users together
	State    []byte // as the mechanism writes it
	Flagged  bool
}

// Validate returns what is wrong with the sketch: ErrInvalid or ErrTooLarge.
func (k *Sketch) Validate() error {
	return checkSketched("a sketch", k.Throttle, k.User, k.State, MaxSketch)
}

// CheckKnown returns what is wrong with the known part of a sketch: ErrInvalid or ErrTooLarge.
func CheckKnown(throttle, user string, known []byte) error {
	return checkSketched("the known part of a sketch", throttle, user, known, MaxKnownBytes)
}

func checkSketched(what, throttle, user string, state []byte, most int) error {
	if err := checkTexts(bounded{"the name of a throttle", throttle, MaxThrottle, true},
		bounded{"the name of a user", user, MaxUser, false}); err != nil || len(state) <= most {
		return err
	}
	return fmt.Errorf("%s of %d bytes, at most %d: %w", what, len(state), most, ErrTooLarge)
}
