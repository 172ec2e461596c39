package quota

import (
	"time"

	"weir/farm"
)

// Lending is what ties a quota to a pot.
type Lending struct {
	Pot   farm.Pot               // guarded
	Name  string                 // of the throttle: with the account, the key
	Run   string                 // of this node; another one after a restart
	Live  func() []string        // runs of all nodes that are up, with this one
	Nodes func() int             // among how many nodes limits are divided
	Call  func(msg []byte) error // hands a message to all other nodes; must not block
	Now   func() time.Time       // the time that events carry
}

// A Lender holds what this node was granted of exact limits.
type Lender struct{}

// LenderStats say how a lender does.
type LenderStats struct{}

// Lend ties the policies with farm: exact to a pot.
func (q *Quota) Lend(Lending) *Lender { return &Lender{} }

// Hear takes what another node called.
func (l *Lender) Hear([]byte, time.Time) error { return nil }

// Lost tells that the pot cannot be asked, or can be again.
func (l *Lender) Lost(bool, time.Time) {}

// Advance does what is due.
func (l *Lender) Advance(time.Time) time.Time { return time.Time{} }

// Alarm registers the function that is called when Advance is due earlier than it said.
func (l *Lender) Alarm(func(due time.Time)) {}

// Close returns what it has.
func (l *Lender) Close() {}

// Stats returns how it does.
func (l *Lender) Stats() LenderStats { return LenderStats{} }
