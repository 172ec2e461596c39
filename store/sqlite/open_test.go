package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/store"
)

var epoch = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func banOf(client string) store.Ban {
	return store.Ban{BanKey: store.BanKey{Client: client}, Reason: "forged stamp", By: "stamp", Since: epoch,
		Until: epoch.Add(time.Hour)}
}

// mustOpen opens the store in a folder, and closes it at the end.
func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// cannotOpen wants Open to fail with an error that says all of the texts.
func cannotOpen(t *testing.T, o Options, want error, says ...string) {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err == nil {
		s.Close()
		t.Fatal("it opens")
	}
	if want != nil && !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

// raw opens the file behind the store's back, as an operator's tool does.
func raw(t *testing.T, folder string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(folder, File)+"?_busy_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); db.Close() })
	return conn
}

func execute(t *testing.T, conn *sql.Conn, queries ...string) {
	t.Helper()
	for _, q := range queries {
		if _, err := conn.ExecContext(t.Context(), q); err != nil {
			t.Fatal(q, err)
		}
	}
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, Options{Folder: folder})
	if err := s.Bans().Put(t.Context(), banOf("a")); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(folder)
	if err != nil || len(all) != 4 {
		t.Fatal(all, err)
	}
	for _, entry := range all {
		if info, _ := entry.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", entry.Name(), info.Mode())
		}
	}
	if s.Path() != filepath.Join(folder, "weir.db") {
		t.Error(s.Path())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if all, _ := os.ReadDir(folder); len(all) != 2 {
		t.Errorf("the log was not carried over: %v", all)
	}
}

func TestFoldersWithStrangeNames(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "50% of weir? #1 & 'x' \"y\" + ü")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, Options{Folder: folder})
	if err := s.Bans().Put(t.Context(), banOf("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, File+"-wal")); err != nil {
		t.Error(err)
	}
}

func TestPragmas(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir(), MaxBytes: 1 << 20})
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "max_page_count": "256", "application_id": fmt.Sprint(applicationID),
		"user_version": fmt.Sprint(len(migrations)),
	} {
		var got string
		if err := s.writer.query(func(r row) error { got = fmt.Sprint(r[0]); return nil },
			"PRAGMA "+pragma); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", pragma, got, want, err)
		}
	}
	if err := s.view(t.Context(), func(v *session) error { return v.exec("DELETE FROM bans") }); err == nil {
		t.Error("a reader can write")
	}
}

func TestOptions(t *testing.T) {
	_, err := Open(t.Context(), Options{MaxBytes: MinBytes - 1, MaxWaiting: MaxWaitingCap + 1,
		Patience: maxPatience + 1})
	var at []string
	for _, fe := range weir.FieldErrors(err) {
		at = append(at, fe.Path)
	}
	if fmt.Sprint(at) != "[folder max_bytes max_waiting patience]" {
		t.Error(err)
	}
	mustOpen(t, Options{Folder: t.TempDir(), MaxBytes: MinBytes, MaxWaiting: 1, Patience: time.Nanosecond})
}

func TestFoldersThatCannotBeUsed(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cannotOpen(t, Options{Folder: filepath.Join(folder, "missing")}, store.ErrUnwritable, "missing", "no such file")
	cannotOpen(t, Options{Folder: file}, store.ErrUnwritable, file, "is a file")
	cannotOpen(t, Options{Folder: filepath.Join(file, "below")}, store.ErrUnwritable, "not a directory")

	if err := os.Mkdir(filepath.Join(folder, File), 0o700); err != nil {
		t.Fatal(err)
	}
	cannotOpen(t, Options{Folder: folder}, store.ErrUnwritable, "it is not a file")

	readOnly := t.TempDir()
	if err := os.Chmod(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		readOnly = "/proc/self" // where not even root may
	}
	cannotOpen(t, Options{Folder: readOnly}, store.ErrUnwritable, readOnly)
}

func TestASecondWeirIsKeptOut(t *testing.T) {
	folder := t.TempDir()
	first := mustOpen(t, Options{Folder: folder})
	cannotOpen(t, Options{Folder: folder}, store.ErrInUse, folder, fmt.Sprintf("process %d", os.Getpid()))
	if err := first.Bans().Put(t.Context(), banOf("a")); err != nil {
		t.Error("the first one suffers:", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := mustOpen(t, Options{Folder: folder})
	if _, err := keptBan(t.Context(), second.Bans(), banOf("a").BanKey, epoch); err != nil {
		t.Error(err)
	}
}

// Damage is told when the store is opened, and what is left is not touched.
func TestDamagedFiles(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, Options{Folder: folder})
	var bans []store.Ban
	for i := range 5000 {
		bans = append(bans, banOf(fmt.Sprintf("client-%d", i)))
	}
	if err := errors.Join(s.Bans().Put(t.Context(), bans...), s.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{
		"garbage":         bytes.Repeat([]byte("weir? "), 5000),
		"a few bytes":     []byte("hello"),
		"half":            whole[:len(whole)/2],
		"half a page":     whole[:len(whole)-pageSize/2],
		"one page":        whole[:pageSize],
		"part of a page":  whole[:pageSize/2],
		"part of the top": whole[:50],
		"a hole": append(append(bytes.Clone(whole[:len(whole)/2]), make([]byte, 3*pageSize)...),
			whole[len(whole)/2+3*pageSize:]...),
		"no top": append(make([]byte, 100), whole[100:]...),
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, File)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				cannotOpen(t, Options{Folder: folder}, store.ErrCorrupt, path)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(after, damaged) {
				t.Error("the file has changed")
			}
		})
	}
}

// Damage that comes up later is told too, and the store can still be closed.
func TestDamageWhileOpen(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, Options{Folder: folder})
	if err := s.Bans().Put(t.Context(), banOf("a")); err != nil {
		t.Fatal(err)
	}
	tool := raw(t, folder)
	execute(t, tool, `INSERT INTO bans VALUES ('', 'not a network', 0, '', '', 0, NULL, NULL)`)
	if _, err := s.Bans().List(t.Context(), epoch); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	execute(t, tool, `DELETE FROM bans WHERE network <> ''`,
		`INSERT INTO counters VALUES ('t', 'r', 'a', '', 1, -5, NULL, 9000000000000000000)`)
	if err := s.Counters().Load(t.Context(), epoch, func(store.Counter) error { return nil }); !errors.Is(err,
		store.ErrCorrupt) {
		t.Error(err)
	}
	execute(t, tool, `DROP TABLE bans`)
	if err := s.Bans().Put(t.Context(), banOf("b")); err == nil || !strings.Contains(err.Error(), s.Path()) {
		t.Error(err)
	}
	if _, err := s.Counters().Prune(t.Context(), epoch); err != nil {
		t.Error("what is whole does not work:", err)
	}
}

func TestAFileOfAnotherProgram(t *testing.T) {
	folder := t.TempDir()
	execute(t, raw(t, folder), "CREATE TABLE songs (title TEXT)")
	cannotOpen(t, Options{Folder: folder}, store.ErrCorrupt, "another program")
}

func TestAFileOfANewerWeir(t *testing.T) {
	folder := t.TempDir()
	if err := mustOpen(t, Options{Folder: folder}).Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, raw(t, folder), "PRAGMA user_version = 99")
	cannotOpen(t, Options{Folder: folder}, store.ErrNewer, "version 99", fmt.Sprintf("up to %d", len(migrations)))
}

// A file of an older weir is brought up to date, and keeps what is in it; a step that fails leaves the version before.
func TestMigrations(t *testing.T) {
	folder := t.TempDir()
	o := Options{Folder: folder}
	s := mustOpen(t, o)
	if err := errors.Join(s.Bans().Put(t.Context(), banOf("a")), s.Close()); err != nil {
		t.Fatal(err)
	}
	more := append(migrations[:len(migrations):len(migrations)], "CREATE TABLE farms (name TEXT) STRICT")
	broken := append(more[:len(more):len(more)],
		"CREATE TABLE ponds (user TEXT) STRICT; CREATE TABLE farms (name TEXT)")
	if _, err := open(t.Context(), o, broken); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("to version %d", len(broken))) {
		t.Fatal(err)
	}
	for range 2 {
		newer, err := open(t.Context(), o, more)
		if err != nil {
			t.Fatal(err)
		}
		var tables int64
		err = newer.writer.query(func(r row) error { tables = r.int(0); return nil },
			"SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('farms', 'ponds')")
		if err != nil || tables != 1 {
			t.Error(tables, err)
		}
		if _, err := keptBan(t.Context(), newer.Bans(), banOf("a").BanKey, epoch); err != nil {
			t.Error(err)
		}
		go newer.run()
		if err := newer.Close(); err != nil {
			t.Error(err)
		}
	}
	cannotOpen(t, o, store.ErrNewer)
}

func TestOpeningCanBeBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	folder := t.TempDir()
	if _, err := Open(ctx, Options{Folder: folder}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mustOpen(t, Options{Folder: folder})
}

// keptBan returns what a store has of a key, or store.ErrNotFound.
func keptBan(ctx context.Context, s store.Bans, key store.BanKey, now time.Time) (store.Ban, error) {
	all, err := s.List(ctx, now)
	if i := slices.IndexFunc(all, func(b store.Ban) bool { return b.BanKey == key }); i >= 0 {
		return all[i], err
	}
	return store.Ban{}, cmp.Or(err, store.ErrNotFound)
}
