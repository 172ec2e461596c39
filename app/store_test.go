package app

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/store"
	"weir/store/sqlite"
)

// TestStartWithoutAStore: a weir that cannot keep anything says what to do about it, and leaves nothing behind.
func TestStartWithoutAStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, folder string)
		is    error
		want  string
	}{
		"damaged": {func(t *testing.T, folder string) {
			write(t, filepath.Join(folder, sqlite.File), strings.Repeat("this is a letter, and no database. ", 1000))
		}, store.ErrCorrupt, "run weir store salvage"},
		"in use": {func(t *testing.T, folder string) {
			other, err := sqlite.Open(t.Context(), sqlite.Options{Folder: folder})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { other.Close() })
		}, store.ErrInUse, "give each weir a data: folder of its own"},
		"of a newer weir": {func(t *testing.T, folder string) {
			mine, err := sqlite.Open(t.Context(), sqlite.Options{Folder: folder})
			if err != nil {
				t.Fatal(err)
			}
			mine.Close()
			tamper(t, folder, "PRAGMA user_version = 1000")
		}, store.ErrNewer, "start the newer weir again"},
		"no file": {func(t *testing.T, folder string) {
			if err := os.MkdirAll(filepath.Join(folder, sqlite.File), 0o700); err != nil {
				t.Fatal(err)
			}
		}, store.ErrUnwritable, "weir needs a data: folder that its user may write to"},
		"without its table": {func(t *testing.T, folder string) {
			mine, err := sqlite.Open(t.Context(), sqlite.Options{Folder: folder})
			if err != nil {
				t.Fatal(err)
			}
			mine.Close()
			tamper(t, folder, "DROP TABLE bans")
		}, nil, "data: the bans cannot be loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{t: t, dir: folder(t), upstream: "http://127.0.0.1:1", clock: clock.NewFake(noon)}
			c.spoil(t, b.dir)
			address := needs.FreeAddress()
			a, err := New(b.config(strings.Replace(twoPerHour, "127.0.0.1:0", address, 1)), Options{Clock: b.clock})
			if err != nil {
				t.Fatal(err)
			}
			err = a.Start(t.Context())
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), "data: ") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("start: %v", err)
			}
			if _, err := os.Stat(a.ControlPath()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the control socket is still there: %v", err)
			}
			if again, err := net.Listen("tcp", address); err != nil {
				t.Errorf("the gate listens: %v", err)
			} else {
				again.Close()
			}
			if err := a.Stop(t.Context()); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
	}
}

// TestFailedStartClosesTheStore: another weir may have the folder then.
func TestFailedStartClosesTheStore(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	b := &bench{t: t, dir: folder(t), upstream: "http://127.0.0.1:1", clock: clock.NewFake(noon)}
	a, err := New(b.config(strings.Replace(twoPerHour, "127.0.0.1:0", taken.Addr().String(), 1)),
		Options{Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err == nil {
		t.Fatal("it started")
	}
	other, err := sqlite.Open(t.Context(), sqlite.Options{Folder: b.dir})
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
}

// TestStoreFailsLater: weir goes on, says so wherever somebody looks, and catches up when the store works again.
func TestStoreFailsLater(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "")
	var out logbook
	cfg := b.current.Load().cfg
	if err := b.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.run(cfg, slog.New(slog.NewTextHandler(&out, nil)))
	b.ban(console.BanOrder{Who: "192.0.2.1"})
	b.ban(console.BanOrder{Who: "192.0.2.2"})
	tamper(t, b.dir, "ALTER TABLE bans RENAME TO away")
	for i := range 5 {
		r := b.ban(console.BanOrder{Who: fmt.Sprintf("198.51.100.%d", i)})
		if r.Kept || len(r.Warnings) != 1 ||
			!strings.HasPrefix(r.Warnings[0], "the ban holds, but a restart will forget it: ") {
			t.Errorf("%+v", r)
		}
	}
	if r := b.unban("192.0.2.1"); r.Kept ||
		!strings.HasPrefix(r.Warnings[0], "it is no longer banned, but will be again after a restart: ") {
		t.Errorf("%+v", r)
	}
	b.wants("banned in memory", b.from("198.51.100.3") == 200, false)
	b.wants("no longer banned", b.from("192.0.2.1"), 200)
	s, err := console.StatusCall.Ask(t.Context(), b.client, console.None{})
	if err != nil || !s.Ready {
		t.Fatalf("%+v, %v", s, err)
	}
	if p := s.Store.Parts[0]; p.Part != "bans" || p.Failures < 6 || p.Unsaved != 6 ||
		!strings.Contains(p.Error, "no such table") || s.Store.Failures < 6 ||
		!strings.HasSuffix(s.Store.Path, "weir.db") {
		t.Errorf("%+v", s.Store)
	}
	if _, body := b.page("/metrics"); !strings.Contains(body, `weir_store_failing{part="bans"} 1`) ||
		!strings.Contains(body, `weir_store_unsaved{part="bans"} 6`) {
		t.Error("the metrics do not show it")
	}
	b.wants("lines in the log", out.count("the store fails"), 1)
	b.clock.Advance(failurePause)
	b.ban(console.BanOrder{Who: "203.0.113.1"})
	b.wants("lines in the log, later", out.count("the store fails"), 2)

	tamper(t, b.dir, "ALTER TABLE away RENAME TO bans")
	if r := b.ban(console.BanOrder{Who: "203.0.113.2"}); !r.Kept || len(r.Warnings) != 0 {
		t.Errorf("%+v", r)
	}
	s = backend{b.App}.Status()
	if p := s.Store.Parts[0]; p.Error != "" || p.Unsaved != 0 {
		t.Errorf("%+v", s.Store)
	}
	b.wants("and again", out.count("the store works again"), 1)
	before := b.who("")
	b.again(nil)
	b.wants("after a restart", b.who(""), before)
}

// TestStopSavesWithoutPatience: who stops weir twice does not lose what was said a moment ago.
func TestStopSavesWithoutPatience(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	for i := range 100 {
		b.offend(&weir.Event{Time: noon, Client: fmt.Sprint("c", i)}, &weir.Answer{Reason: weir.Forged})
	}
	b.Stop(ended())
	b.again(nil)
	b.wants("after a restart", backend{b.App}.BanStatus().Clients, 100)
}

// TestStatusWithoutAStore: whoever asks before Start, or after Stop, is told what there is.
func TestStatusWithoutAStore(t *testing.T) {
	t.Parallel()
	b := &bench{t: t, dir: folder(t), upstream: "http://127.0.0.1:1"}
	a, err := New(b.config(twoPerHour), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := (backend{a}).Status(); s.Store.Path != "" || s.Bans.Max == 0 {
		t.Errorf("%+v", s)
	}
	if r, err := (backend{a}).Ban(t.Context(), console.BanOrder{Who: "192.0.2.1"}, "root"); err != nil || r.Kept ||
		len(r.Warnings) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tamper changes the file of the store behind weir's back.
func tamper(t *testing.T, folder, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(folder, sqlite.File))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		t.Fatal(err)
	}
}

// A logbook is a log that a test reads.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}
