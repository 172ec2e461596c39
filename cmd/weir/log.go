package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/config"
	"weir/internal/logs"
)

// A logger writes the log. Its level and format may change while it is in use.
type logger struct {
	*slog.Logger
	buffer *logs.Buffer
	said   *said
	level  *slog.LevelVar
	json   *atomic.Bool
	tty    bool
}

const (
	logBound    = 4 << 20     // bytes that wait for the reader of the log
	logPatience = time.Second // how long the end waits for the reader
)

// newLog returns a logger with the default level and format.
func newLog(to io.Writer, tty bool) *logger {
	w := logs.NewBuffer(to, logBound)
	l := &logger{buffer: w, level: new(slog.LevelVar), json: new(atomic.Bool), tty: tty}
	inJSON := &slog.HandlerOptions{Level: l.level, ReplaceAttr: spelled}
	inText := &slog.HandlerOptions{Level: l.level}
	if tty {
		inText.ReplaceAttr = shorter
	}
	h := newRepeats(formats{text: slog.NewTextHandler(w, inText), json: slog.NewJSONHandler(w, inJSON), asJSON: l.json})
	l.Logger, l.said = slog.New(h), h.said
	l.configure(config.Config{}.WithDefaults().Log)
	return l
}

// shorter leaves out what people at a terminal know: the date, and that a line is no warning.
func shorter(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime:
		return slog.String(slog.TimeKey, a.Value.Time().Format(time.TimeOnly))
	case a.Key == slog.LevelKey && a.Value.Any() == slog.LevelInfo:
		return slog.Attr{}
	}
	return a
}

func (l *logger) close() {
	l.said.end()
	l.buffer.Close(logPatience)
}

// spelled writes a duration as people do, and not as a number of nanoseconds.
func spelled(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func (l *logger) configure(c config.Log) {
	levels := map[config.Level]slog.Level{config.LevelDebug: slog.LevelDebug, config.LevelWarn: slog.LevelWarn,
		config.LevelError: slog.LevelError}
	l.level.Set(levels[c.Level]) // info is the zero value
	l.json.Store(c.Format == config.FormatJSON || c.Format != config.FormatText && !l.tty)
}

// formats writes each record in one of two formats. Both handlers get all attributes, so that the format can change at
// any record.
type formats struct {
	text, json slog.Handler
	asJSON     *atomic.Bool
}

func (f formats) chosen() slog.Handler {
	if f.asJSON.Load() {
		return f.json
	}
	return f.text
}

func (f formats) Enabled(ctx context.Context, l slog.Level) bool { return f.chosen().Enabled(ctx, l) }

func (f formats) Handle(ctx context.Context, r slog.Record) error { return f.chosen().Handle(ctx, r) }

func (f formats) WithAttrs(a []slog.Attr) slog.Handler {
	return formats{f.text.WithAttrs(a), f.json.WithAttrs(a), f.asJSON}
}

func (f formats) WithGroup(name string) slog.Handler {
	return formats{f.text.WithGroup(name), f.json.WithGroup(name), f.asJSON}
}
