package main

import (
	"context"
	"hash/maphash"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"sync"
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

// repeats writes the first of equal warnings and errors at once, and counts the others: every 10 seconds the last of
// them is written with how many they were. Nothing else is held back.
type repeats struct {
	next  slog.Handler
	attrs string // that all lines of this handler have, as same writes them
	said  *said
}

// maxSaid bounds the lines that are compared. Beyond it lines are written as they come.
const maxSaid = 256

// said are the lines of late.
type said struct {
	seed maphash.Seed

	mu    sync.Mutex
	ended bool
	lines map[uint64]*saidLine
}

type saidLine struct {
	to    slog.Handler
	timer *time.Timer
	more  int64 // that were not written
	last  slog.Record
}

func newRepeats(next slog.Handler) repeats {
	return repeats{next: next, said: &said{seed: maphash.MakeSeed(), lines: map[uint64]*saidLine{}}}
}

func (h repeats) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h repeats) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.next.Handle(ctx, r)
	}
	text := h.attrs + r.Level.String() + "\x00" + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += same(a)
		return true
	})
	if h.said.again(maphash.String(h.said.seed, text), h.next, r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// numbers name a single event, such as a request: lines that differ in nothing else are equal.
var numbers = []string{"id", "session", "trace_id"}

// localPort is the end of a connection that differs from one to the next.
var localPort = regexp.MustCompile(`:[0-9]+->`)

func same(a slog.Attr) string {
	if slices.Contains(numbers, a.Key) {
		return ""
	}
	return "\x00" + a.Key + "\x00" + localPort.ReplaceAllString(a.Value.Resolve().String(), "->")
}

func (h repeats) WithAttrs(all []slog.Attr) slog.Handler {
	for _, a := range all {
		h.attrs += same(a)
	}
	h.next = h.next.WithAttrs(all)
	return h
}

func (h repeats) WithGroup(name string) slog.Handler {
	h.attrs += "\x00" + name
	h.next = h.next.WithGroup(name)
	return h
}

// again reports whether a line like this was written of late, and counts it.
func (s *said) again(key uint64, to slog.Handler, r slog.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := s.lines[key]; line != nil {
		line.more++
		line.last = r.Clone()
		return true
	}
	if !s.ended && len(s.lines) < maxSaid {
		s.lines[key] = &saidLine{to: to, timer: time.AfterFunc(logs.Every, func() { s.sumUp(key) })}
	}
	return false
}

// sumUp writes what has come since a line was written, and forgets a line that has not come again.
func (s *said) sumUp(key uint64) {
	s.mu.Lock()
	line := s.lines[key]
	if line == nil || line.more == 0 {
		delete(s.lines, key)
		s.mu.Unlock()
		return
	}
	last, more := line.last, line.more
	line.more = 0
	line.timer.Reset(logs.Every)
	s.mu.Unlock()
	line.write(last, more)
}

func (l *saidLine) write(last slog.Record, more int64) {
	last.AddAttrs(slog.Int64("repeated", more))
	_ = l.to.Handle(context.Background(), last)
}

// end writes what was counted. What comes later is written as it is.
func (s *said) end() {
	s.mu.Lock()
	lines := s.lines
	s.lines, s.ended = nil, true
	s.mu.Unlock()
	for _, line := range lines {
		if line.timer.Stop(); line.more > 0 {
			line.write(line.last, line.more)
		}
	}
}
