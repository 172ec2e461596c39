package store

import "time"

// A StampNonce is what tells a mail stamp from all others.
type StampNonce [16]byte

// A Stamp is a mail stamp that is used, or about to be.
type Stamp struct {
	Nonce StampNonce
	Until time.Time // when nobody takes it any more, so that it can be forgotten
}

// Validate returns ErrInvalid for a stamp that cannot be stored.
func (s *Stamp) Validate() error { return checkTime("the end of a stamp", s.Until) }
