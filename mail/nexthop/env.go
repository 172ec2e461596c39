package nexthop

import (
	"context"
	"log/slog"
	"net"

	"weir/internal/clock"
)

// An Env is what a client needs of its surroundings. The zero value has the machine's time, net.Dialer and no log.
type Env struct {
	Clock clock.Clock
	Log   *slog.Logger
	// Dial makes a connection, as net.Dialer.DialContext does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (e Env) withDefaults() Env {
	if e.Clock == nil {
		e.Clock = clock.System
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.Dial == nil {
		e.Dial = new(net.Dialer).DialContext
	}
	return e
}
