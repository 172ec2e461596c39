package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"weir/internal/clock"
)

func TestFailuresAreLoggedNowAndThen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := clock.NewFake(noon)
	f := &failures{clock: c, log: slog.New(slog.NewTextHandler(&out, nil)), last: map[string]*failure{}}
	for range 1000 {
		f.note("plans", errors.New("broken"))
		f.note("other", errors.New("broken"))
	}
	c.Advance(failurePause)
	f.note("plans", errors.New("broken"))
	if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), "failures=1000") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}
