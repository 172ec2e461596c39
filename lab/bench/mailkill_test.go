//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// TestKilledUnderLoad is M2 in short. That no mail is lost by a kill or a power cut is seen from outside by the tests
// of cmd/weir, and whether M2 works by a quick run of the measurements.
func TestKilledUnderLoad(t *testing.T) {
	needs.Unwatched(t)
	if !needs.Long() {
		t.Skip("a build, kills and a trace: make long")
	}
	folder := t.TempDir()
	binary := buildWeir(folder)
	m2 := &trial{}
	t.Cleanup(m2.end)
	t.Run("kills", func(t *testing.T) {
		var k *killed
		if err := attempt(func() { k = m2.kill(binary, folder, 4) }); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range [][]string{k.lost, k.unexplained, k.damaged, k.wanting} {
			for _, one := range wrong {
				t.Error(one)
			}
		}
		if k.acknowledged == 0 || k.torn == 0 {
			t.Errorf("%d mails were acknowledged, and %d logs torn", k.acknowledged, k.torn)
		}
	})
	t.Run("trace", func(t *testing.T) {
		var early []string
		err := attempt(func() { early = m2.traceAcknowledged(binary, folder, 10) })
		if errors.Is(err, errors.ErrUnsupported) {
			needs.Skip(t, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range early {
			t.Error(one)
		}
	})
}

// TestTrace: what is missing before an acknowledgement is found.
func TestTrace(t *testing.T) {
	const (
		file   = `7 fsync(9</d/mail/AB/ABCD.new>) = 0`
		folder = `7 fsync(9</d/mail/AB>) = 0`
		row    = `8 pwrite64(5</d/weir.db-wal>, "\0\1mail-1-\r\n", 4096, 56) = 4096`
		synced = `8 fdatasync(5</d/weir.db-wal>) = 0`
		begun  = `8 fdatasync(5</d/weir.db-wal> <unfinished ...>`
		done   = `8 <... fdatasync resumed>) = 0`
		failed = `8 fdatasync(5</d/weir.db-wal>) = -1 EIO (Input/output error)`
		answer = `7 write(6<TCP:[127.0.0.1:1->127.0.0.1:2]>, "250 2.0.0 OK: queued as X\r\n", 27) = 27`
	)
	for _, c := range []struct {
		want  string
		filed bool
		lines []string
	}{
		{"", false, []string{row, synced, answer}},
		{"", false, []string{row, begun, `9 write(1<pipe:[3]>, "x", 1) = 1`, done, answer}},
		{"", true, []string{file, folder, row, synced, answer}},
		{"was not in the log", false, []string{synced, answer}},
		{"the log was not synced", false, []string{synced, row, answer}},
		{"the log was not synced", false, []string{row, failed, answer}},
		{"the log was not synced", false, []string{row, begun, answer, done}},
		{"the log was not synced", false, []string{begun, row, done, answer}},
		{"its file was not synced", true, []string{folder, row, synced, answer}},
		{"its file was not synced", true, []string{row, synced, file, folder, answer}},
		{"the folder of its file was not synced", true, []string{folder, file, row, synced, answer}},
	} {
		path := filepath.Join(t.TempDir(), "trace")
		if err := os.WriteFile(path, []byte(strings.Join(c.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		calls := readTrace(path)
		at := slices.IndexFunc(calls, func(c call) bool { return strings.Contains(c.args, "queued as X") })
		if at < 0 {
			t.Fatalf("%q: no answer in %+v", c.lines, calls)
		}
		if got := tooEarly(calls[:at], calls[at].begun, "mail-1-", c.filed); got != c.want {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}
