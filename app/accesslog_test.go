package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir"
	"weir/internal/logs"
	"weir/internal/testkit/needs"
)

// eventuallyFile waits until a file has a text.
func (b *bench) eventuallyFile(path, want string) string {
	b.t.Helper()
	var text []byte
	needs.Wait(b.t, fmt.Sprintf("%q in %s", want, path), func() bool {
		text, _ = os.ReadFile(path)
		return strings.Contains(string(text), want)
	})
	return string(text)
}

// withAccess is twoPerHour with options of the access log.
func withAccess(options string) string { return twoPerHour + "log: {access: " + options + "}\n" }

// TestAccessLogAndReloads: a file of its own gets every line; a reload opens it again, changes the format at once, and
// moves to another file or back to the log.
func TestAccessLogAndReloads(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	b := start(t, withAccess(fmt.Sprintf("{to: %s, format: combined}", at("one"))))
	reload := func(options string) {
		t.Helper()
		if err := b.Reload(b.config(withAccess(options))); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		b.get(0, "acme")
	}
	text := b.eventuallyFile(at("one"), "429")
	b.wants("lines", strings.Count(text, "\n"), 3)
	b.wants("accounts in clear", strings.Contains(text, "acme"), false)
	if info, err := os.Stat(at("one")); err != nil || info.Mode().Perm()&^logs.Mode != 0 {
		t.Error(info, err)
	}
	// As logrotate does it: move it away, then reload.
	if err := os.Rename(at("one"), at("one.1")); err != nil {
		t.Fatal(err)
	}
	reload(fmt.Sprintf("{to: %s, format: json}", at("one")))
	b.get(0, "acme")
	text = b.eventuallyFile(at("one"), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(text), &line); err != nil || line["status"] != 429.0 || line["rule"] != "per-hour" {
		t.Errorf("%v: %s", err, text)
	}
	// Another file; what waits for the old one is not lost.
	b.get(0, "acme")
	reload(fmt.Sprintf(`{to: %s, format: "{method} {path} {status}"}`, at("two")))
	b.get(0, "other")
	b.wants("the template", b.eventuallyFile(at("two"), "\n"), "GET /v1/things 200\n")
	needs.Wait(t, "the last line of the old file", func() bool {
		text, _ := os.ReadFile(at("one"))
		return strings.Count(string(text), "\n") == 2
	})
	// Back to the log, and no more.
	reload("refused")
	b.get(0, "acme")
	// What waits is written at the end.
	reload(fmt.Sprintf(`{to: %s, format: "{status}", requests: refused}`, at("three")))
	b.get(0, "other")
	b.get(0, "acme")
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wants("the end", b.eventuallyFile(at("three"), "\n"), "429\n")
	b.wants("the other file", b.eventuallyFile(at("two"), "\n"), "GET /v1/things 200\n")
}

// TestAccessLogThatCannotBeOpened: weir does not start, and a reload changes nothing; both say why and where.
func TestAccessLogThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	good := withAccess(fmt.Sprintf(`{to: %s, format: "{status}"}`, filepath.Join(dir, "access")))
	b := start(t, good)
	bad := withAccess(fmt.Sprintf(`{to: %s, format: "{path}"}`, filepath.Join(dir, "missing", "access")))
	isTold := func(err error) {
		t.Helper()
		all := weir.FieldErrors(err)
		if len(all) != 1 || all[0].Path != "log.access.to" || !strings.HasPrefix(all[0].Hint, "make its folder") {
			t.Errorf("%v", err)
		}
	}
	isTold(b.Reload(b.config(bad)))
	// Not even the file that is open, if it cannot be opened again.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	isTold(b.Reload(b.config(good)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.Reload(b.config(good)); err != nil {
		t.Fatal(err)
	}
	b.get(0, "acme")
	b.wants("lines", b.eventuallyFile(filepath.Join(dir, "access"), "\n"), "200\n")

	other := &bench{t: t, dir: filepath.Join(folder(t), "data"), upstream: b.upstream}
	a, err := New(other.config(bad), Options{})
	if err != nil {
		t.Fatal(err)
	}
	isTold(a.Start(t.Context()))
}
