package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

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
	if got := line(); !strings.Contains(got, "msg=five") {
		t.Errorf("on a terminal: %s", got)
	}
}
