package gate

import (
	"log/slog"

	"weir/internal/clock"
)

// An Env is what every gate needs of its surroundings. The zero value keeps the machine's time, does not log, and
// opens its own sockets.
type Env struct {
	Clock clock.Clock
	Log   *slog.Logger
	// Sockets are those that were handed over to weir. Gates listen by it.
	Sockets *Sockets
}

// WithDefaults fills in what is missing.
func (e Env) WithDefaults() Env {
	if e.Clock == nil {
		e.Clock = clock.System
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	return e
}
