package gate

import (
	"log/slog"
	"runtime/debug"
	"time"

	"weir/internal/logs"
)

// ConnectionFailed is what is logged with the panic that ended a connection.
const ConnectionFailed = "a connection failed because of a bug in weir"

// Go runs f on a goroutine of its own, for one connection. A stop waits for it. A panic of f is logged, and its
// neighbours go on.
func (k *Skeleton[S]) Go(f func()) {
	k.UnderWay.Add(1)
	go func() {
		defer k.UnderWay.Add(-1)
		defer k.Recover(ConnectionFailed, nil)
		f()
	}()
}

// Recover is deferred where a panic must not take down the others. It logs the panic, and calls then, which may be nil.
func (k *Skeleton[S]) Recover(message string, then func(), attrs ...slog.Attr) {
	if what := recover(); what != nil {
		k.Panicked(message, what, attrs...)
		call(then)
	}
}

// maxPanics is how many panics are logged in a second. A flood may find a way to cause one.
const maxPanics = 10

// Panicked logs a panic that has been recovered from.
func (k *Skeleton[S]) Panicked(message string, what any, attrs ...slog.Attr) {
	if !k.panics.Pass("", maxPanics, int64(k.Elapsed()/time.Second)) {
		return
	}
	k.env.Log.LogAttrs(k.Base, slog.LevelError, message, append(attrs, slog.Any("panic", what),
		slog.String("stack", string(debug.Stack())), slog.Int64("unlogged_before", k.panics.Hidden()[""]))...)
}

// Warn logs a warning, but not every time.
func (k *Skeleton[S]) Warn(line *logs.Line, message string, attrs ...slog.Attr) {
	if more, ok := line.Now(k.Elapsed()); ok {
		k.env.Log.LogAttrs(k.Base, slog.LevelWarn, message, append(attrs, slog.Int64("unlogged_before", more))...)
	}
}

// Elapsed is how long the gate has been there. It does not matter to it whether the clock is set.
func (k *Skeleton[S]) Elapsed() time.Duration { return k.env.Clock.Now().Sub(k.began) }
