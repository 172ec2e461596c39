package gate

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// Accept gives every connection to take, one after the other, until the listener is closed or the gate stops.
func Accept[C net.Conn](accept func() (C, error), stop <-chan struct{}, log *slog.Logger, take func(C)) {
	var p Pause
	for {
		c, err := accept()
		if err == nil {
			p = 0
			take(c)
		} else if !p.After(err, "cannot accept connections for the moment", stop, log) {
			return
		}
	}
}

// A Pause is made when the system can take no more, such as when descriptors run out. The first one is short, and each
// of the next is longer. The zero value begins anew.
type Pause time.Duration

const (
	firstPause = Pause(5 * time.Millisecond)
	maxPause   = Pause(time.Second)
)

// After logs what failed and pauses. It reports false when the socket is closed or the gate stops.
func (p *Pause) After(err error, what string, stop <-chan struct{}, log *slog.Logger) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	select {
	case <-stop:
		return false
	default:
	}
	*p = min(max(2**p, firstPause), maxPause)
	log.Warn(what, "error", err, "again_in", time.Duration(*p))
	select {
	case <-time.After(time.Duration(*p)):
		return true
	case <-stop:
		return false
	}
}
