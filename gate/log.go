package gate

import (
	"log/slog"
	"runtime/debug"
	"time"

	"weir/internal/loglimit"
)

// connectionFailed is logged with a panic.
const connectionFailed = "a connection failed by a mistake in weir"

// Go runs f on a goroutine of its own, for one connection. A stop waits for it. A panic of f is logged, and its
// neighbours go on.
func (k *Skeleton[S]) Go(f func()) {
	k.UnderWay.Add(1)
	go func() {
		defer k.UnderWay.Add(-1)
		defer k.Recover(connectionFailed, nil)
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

// Panicked logs a panic that has been recovered from.
func (k *Skeleton[S]) Panicked(message string, what any, attrs ...slog.Attr) {
	k.log(&k.panics, slog.LevelError, message,
		append(attrs, slog.Any("panic", what), slog.String("stack", string(debug.Stack()))))
}

// Warn logs a warning, but not every time.
func (k *Skeleton[S]) Warn(line *loglimit.Line, message string, attrs ...slog.Attr) {
	k.log(line, slog.LevelWarn, message, attrs)
}

func (k *Skeleton[S]) log(line *loglimit.Line, level slog.Level, message string, attrs []slog.Attr) {
	if more, ok := line.Now(k.Elapsed()); ok {
		k.env.Log.LogAttrs(k.Base, level, message, append(attrs, slog.Int64("unlogged_before", more))...)
	}
}

// Elapsed is how long the gate has been there. It does not matter to it whether the clock is set.
func (k *Skeleton[S]) Elapsed() time.Duration { return k.env.Clock.Now().Sub(k.began) }
