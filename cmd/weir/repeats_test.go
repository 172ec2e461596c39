package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/config"
)

// A lines is where a log goes.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// taken returns the lines so far without their time, and forgets them.
func (l *lines) taken() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	text := ""
	for line := range strings.Lines(l.text.String()) {
		_, line, _ = strings.Cut(line, " ")
		text += line
	}
	return text
}

func textLog(to *lines) *logger {
	l := newLog(to, false)
	l.configure(config.Log{Format: config.FormatText})
	return l
}

// Of equal warnings the first is written at once, and the others are counted. Nothing is lost, and nothing else waits.
func TestEqualLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to lines
		l := textLog(&to)
		fail := func(i int) {
			l.With("gate", ":80").Warn("the upstream failed", "id", i,
				"err", fmt.Errorf("read tcp 127.0.0.1:%d->127.0.0.1:3000: connection reset", 40_000+i))
		}
		for i := range 499 {
			fail(i)
			if i == 0 {
				const first = `level=WARN msg="the upstream failed" gate=:80 id=0 ` +
					`err="read tcp 127.0.0.1:40000->127.0.0.1:3000: connection reset"` + "\n"
				if got := to.taken(); got != first {
					t.Errorf("%q", got)
				}
			}
			time.Sleep(24 * time.Millisecond)
		}
		const ends = `msg="the upstream failed" gate=:80 id=416 ` +
			`err="read tcp 127.0.0.1:40416->127.0.0.1:3000: connection reset" repeated=416`
		if got := to.taken(); strings.Count(got, "\n") != 1 || !strings.Contains(got, ends) {
			t.Errorf("%q", got)
		}
		l.Info("reloaded")
		l.Info("reloaded")
		l.With("gate", ":81").Warn("the upstream failed", "id", 1)
		l.Error("the upstream failed", "id", 1)
		l.WithGroup("g").Error("the upstream failed", "id", 1)
		if got := to.taken(); strings.Count(got, "\n") != 5 {
			t.Errorf("%q", got)
		}
		time.Sleep(10 * time.Second)
		if got := to.taken(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "repeated=82\n") {
			t.Errorf("%q", got)
		}
		time.Sleep(time.Minute)
		fail(1)
		fail(2)
		if got := to.taken(); strings.Count(got, "\n") != 1 || strings.Contains(got, "repeated") {
			t.Errorf("after a while: %q", got)
		}
		l.close()
		if got := to.taken(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "id=2 ") ||
			!strings.Contains(got, "repeated=1\n") {
			t.Errorf("at the end: %q", got)
		}
	})
}

// Lines that differ are all written, however many they are.
func TestManyDifferentLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to lines
		l := textLog(&to)
		for i := range 2 * maxSaid {
			l.Error("it failed", "err", errors.New(fmt.Sprint("number ", i)))
		}
		if n := len(l.said.lines); n != maxSaid {
			t.Errorf("%d lines are compared", n)
		}
		if got := strings.Count(to.taken(), "\n"); got != 2*maxSaid {
			t.Errorf("%d lines", got)
		}
		l.close()
	})
}

// Durations are written with their unit, in both formats.
func TestDurationsInTheLog(t *testing.T) {
	for _, format := range []config.Format{config.FormatText, config.FormatJSON} {
		var to lines
		l := newLog(&to, false)
		l.configure(config.Log{Format: format})
		l.Info("done", "took", 1500*time.Millisecond, slog.Group("in", "all", time.Minute))
		l.close()
		if got := to.text.String(); !strings.Contains(got, "1.5s") || !strings.Contains(got, "1m0s") {
			t.Error(got)
		}
	}
}
