package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/config"
)

func TestLogChangesWhileInUse(t *testing.T) { synctest.Test(t, testLogChangesWhileInUse) }

func testLogChangesWhileInUse(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out, false)
	defer log.close()
	derived := log.With("gate", ":8080").WithGroup("g")
	line := func() string {
		synctest.Wait() // until it is written
		defer out.Reset()
		return out.String()
	}
	derived.Info("one", "n", 1)
	if got := line(); !strings.Contains(got, `"msg":"one","gate":":8080","g":{"n":1}}`) {
		t.Errorf("not on a terminal: %s", got)
	}
	log.configure(config.Log{Level: config.LevelWarn, Format: config.FormatText})
	derived.Info("two")
	derived.Warn("three", "n", 3)
	if got := line(); strings.Contains(got, "two") || !strings.Contains(got, "msg=three gate=:8080 g.n=3") {
		t.Errorf("text, warnings only: %s", got)
	}
	log.configure(config.Log{Level: config.LevelDebug, Format: config.FormatAuto})
	derived.Debug("four")
	if got := line(); !strings.Contains(got, `"msg":"four"`) {
		t.Errorf("debug: %s", got)
	}
	terminal := newLog(&out, true)
	defer terminal.close()
	terminal.Info("five")
	now := time.Now().Format(time.TimeOnly)
	if got, want := line(), "time="+now+" msg=five\n"; got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
	terminal.Warn("six", "time", 7, "level", []int{8})
	if got, want := line(), "time="+now+" level=WARN msg=six time=7 level=[8]\n"; got != want {
		t.Errorf("a warning: %q, want %q", got, want)
	}
	file := newLog(&out, false)
	defer file.close()
	file.configure(config.Log{Format: config.FormatText})
	file.Info("seven")
	now = time.Now().Format("2006-01-02T15:04:05.000Z07:00")
	if got, want := line(), "time="+now+" level=INFO msg=seven\n"; got != want {
		t.Errorf("text in a file: %q, want %q", got, want)
	}
}
