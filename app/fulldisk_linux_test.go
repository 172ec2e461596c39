package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/console"
	"weir/internal/clock"
	"weir/internal/logs"
	"weir/internal/testkit/needs"
)

// TestFullDisk: on a disk that somebody else has filled, mail is put off, weir says that it is not ready, and the log
// has a line now and then instead of one for each mail. When there is room again, everything goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		needs.Skip(t, "a disk of its own takes root")
	}
	var log lockedBuffer
	p := &post{t: t, clock: clock.NewFake(noon), sink: newSink(t), folder: t.TempDir(),
		log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := syscall.Mount("weir", p.folder, "tmpfs", 0, "size=24m,mode=700"); err != nil {
		needs.Skip(t, err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(p.folder, syscall.MNT_DETACH) })
	p.start(p.config("rate: 1000/s", "auth: none\n  networks: [127.0.0.0/8]"))
	mailer := func() *mailer {
		m := p.mailer("")
		m.from = "ann@example.org"
		return m
	}
	ready := func(want bool) {
		t.Helper()
		s, err := console.StatusCall.Ask(context.Background(), p.control, console.None{})
		if err != nil || s.Ready != want {
			t.Fatalf("ready: %t, %v", s.Ready, err)
		}
	}
	m := mailer()
	if err := m.send("before", many(1)...); err != nil {
		t.Fatal(err)
	}
	p.arrived(1, many(1))
	ready(true)
	other := filepath.Join(p.folder, "somebody-else")
	var disk syscall.Statfs_t
	if err := syscall.Statfs(p.folder, &disk); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, make([]byte, int64(disk.Bavail)*disk.Bsize-100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	const tries = 200
	for period := range 2 {
		p.clock.Advance(logs.Every)
		ready(false)
		for i := range tries {
			if i%5 == 0 { // too many errors end a session
				m = mailer()
			}
			if err := m.send("full", "later@elsewhere.example"); code(err) != 452 {
				t.Fatalf("mail %d of period %d: %v", i, period, err)
			}
			if err := m.Reset(); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(log.String(), "mail could not be taken"); n != period+1 {
			t.Errorf("%d lines after %d mails", n, (period+1)*tries)
		}
	}
	if want := fmt.Sprintf("unlogged_before=%d", tries-1); !strings.Contains(log.String(), want) {
		t.Errorf("the log does not say %s", want)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(logs.Every)
	ready(true)
	if err := mailer().send("after", "later@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.arrived(1, []string{"later@elsewhere.example"})
}
