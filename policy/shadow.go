package policy

import (
	"sync"
	"sync/atomic"
)

// A Switch takes a throttle into shadow and out of it. The zero value is off. It is safe for concurrent use.
type Switch struct {
	on atomic.Bool

	mu   sync.Mutex
	goes chan struct{} // closed while it is on; nil where nobody waits for that
}

// Load reports whether the throttle is in shadow.
func (s *Switch) Load() bool { return s.on.Load() }

// Store turns the switch. Events that wait because of the throttle go on when it is turned on.
func (s *Switch) Store(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on.Swap(on) == on || s.goes == nil {
		return
	}
	if on {
		close(s.goes)
	} else {
		s.goes = nil
	}
}

// Goes returns a channel that is closed as soon as the throttle is in shadow.
func (s *Switch) Goes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.goes == nil {
		if s.goes = make(chan struct{}); s.on.Load() {
			close(s.goes)
		}
	}
	return s.goes
}
