package simulate

import (
	"bytes"
	"compress/gzip"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// readLog reads a whole log that has no mistakes as such.
func readLog(t testing.TB, o LogOptions, paths ...string) ([]Entry, LogInfo) {
	t.Helper()
	l, err := OpenLog(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, l)
}

func drain(t testing.TB, l *Log) ([]Entry, LogInfo) {
	t.Helper()
	var all []Entry
	for e, err := range l.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(all); n > 0 && e.At.Before(all[n-1].At) {
			t.Fatalf("%v after %v", e.At, all[n-1].At)
		}
		all = append(all, e)
	}
	if done, total := l.Progress(); done != total {
		t.Errorf("%d of %d bytes are read", done, total)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return all, l.Info()
}

// readError returns what a log ends with.
func readError(t testing.TB, o LogOptions, paths ...string) error {
	t.Helper()
	l, err := OpenLog(paths, o)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, e := range l.Entries() {
		err = e
	}
	return err
}

// file writes a file of a test, last changed in May 2026.
func file(t testing.TB, name string, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	content := []byte(text)
	if strings.HasSuffix(name, ".gz") {
		content = packed(t, content)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	changed := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	if err := os.Chtimes(path, changed, changed); err != nil {
		t.Fatal(err)
	}
	return path
}

func packed(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// same compares mails with what they should be, as in "ann: bob eve", the recipients in order.
func same(t testing.TB, got []Entry, want ...string) {
	t.Helper()
	var all []string
	for _, e := range got {
		all = append(all, e.User+": "+strings.Join(slices.Sorted(slices.Values(e.To)), " "))
	}
	if !slices.Equal(all, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(all, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// skippedFor returns how many lines were skipped for a reason, and the first of them.
func skippedFor(info LogInfo, r reason) (lines, first int) {
	for _, one := range info.Reasons {
		if one.Why == why[r] {
			return one.Lines, one.First
		}
	}
	return 0, 0
}

func networks(all ...string) (clients []netip.Prefix) {
	for _, one := range all {
		clients = append(clients, netip.MustParsePrefix(one))
	}
	return clients
}
