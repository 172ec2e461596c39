package gatetest

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"
)

// Noon is where the clocks of most tests stand: on the border of a period.
var Noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// Patience bounds how long a test waits for something that must happen. A test that passes never waits it out.
const Patience = time.Minute

// Receive waits for something that must come.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// Ended is a context that is over.
func Ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Run makes a gate listen and serve.
func Run(t testing.TB, g interface {
	Listen() error
	Start()
}) {
	t.Helper()
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	g.Start()
}

// Stop stops a gate. Nothing may be cut off.
func Stop(t testing.TB, g interface{ Stop(context.Context) error }) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// Dial connects. The connection ends with the test, also with one that fails.
func Dial(t testing.TB, to net.Addr) net.Conn { t.Helper(); return dial(t, net.Dialer{}, to) }

// DialFrom is Dial from 127.0.0.host, so that a test can have several sources.
func DialFrom(t testing.TB, host byte, to net.Addr) net.Conn {
	t.Helper()
	return dial(t, net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}, to)
}

func dial(t testing.TB, from net.Dialer, to net.Addr) net.Conn {
	t.Helper()
	c, err := from.Dial(to.Network(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(Patience))
	return c
}

// A Log may be read while it is written. The zero value is empty.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is what has been written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Text returns a logger that writes lines of key=value from a level on.
func (l *Log) Text(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// JSON returns a logger that writes a JSON object per line, from a level on.
func (l *Log) JSON(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level}))
}
