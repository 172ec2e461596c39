package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/store"
)

// filedMail adds a mail whose text is in a file, and returns the name of that.
func filedMail(t *testing.T, s *Store, id store.MailID) (name string) {
	t.Helper()
	staged := s.Mail().Stage()
	if _, err := staged.Write(make([]byte, store.MaxInline+1)); err != nil {
		t.Fatal(err)
	}
	text, err := staged.Seal()
	if err == nil {
		err = s.Mail().Update(t.Context(), func(tx store.MailTx) error { return message(tx, id, text) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return text.File
}

// A disk that is full while a text comes in is told at once, and again by Seal.
func TestNoSpaceForAText(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no disk that is always full")
	}
	s := mustOpen(t, Options{Folder: t.TempDir()})
	text := s.Mail().Stage().(*staged)
	if _, err := text.Write(make([]byte, store.MaxInline+1)); err != nil {
		t.Fatal(err)
	}
	text.file.Close()
	text.file = full
	for range 2 {
		if _, err := text.Write([]byte("more")); !errors.Is(err, store.ErrFull) {
			t.Error(err)
		}
	}
	if _, err := text.Seal(); !errors.Is(err, store.ErrFull) {
		t.Error(err)
	}
	text.Discard()
	if n := textFiles(t, s.files.folder); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestWhatIsWrongWithATextHasAName(t *testing.T) {
	for err, want := range map[error]error{
		syscall.ENOSPC: store.ErrFull, syscall.EDQUOT: store.ErrFull, syscall.EFBIG: store.ErrFull,
		syscall.EIO: store.ErrUnwritable, syscall.EROFS: store.ErrUnwritable, syscall.EACCES: store.ErrUnwritable,
	} {
		if got := unwritten(&fs.PathError{Op: "write", Path: "x", Err: err}); !errors.Is(got, want) ||
			!errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
	s := mustOpen(t, Options{Folder: t.TempDir()})
	// a file where the folder should be
	if err := os.WriteFile(filepath.Join(s.files.folder, MailFolder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := s.Mail().Stage()
	for range 2 {
		if _, err := text.Write(make([]byte, store.MaxInline+1)); !errors.Is(err, store.ErrUnwritable) {
			t.Error(err)
		}
	}
	if _, err := text.Seal(); !errors.Is(err, store.ErrUnwritable) {
		t.Error(err)
	}
	text.Discard()
	if len(s.texts.staged) != 0 {
		t.Error(s.texts.staged)
	}
}

// As many texts as may come in do, and one more is refused.
func TestTextsThatComeInAreBounded(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir()})
	s.texts.staged = map[string]bool{}
	for i := range maxStaged - 1 {
		s.texts.staged[fmt.Sprint(i)] = false
	}
	last, more := s.Mail().Stage(), s.Mail().Stage()
	if _, err := last.Write(make([]byte, store.MaxInline+1)); err != nil {
		t.Error(err)
	}
	if _, err := more.Write(make([]byte, store.MaxInline+1)); !errors.Is(err, store.ErrTooMany) {
		t.Error(err)
	}
	more.Discard()
	last.Discard()
	again := s.Mail().Stage()
	if _, err := again.Write(make([]byte, store.MaxInline+1)); err != nil {
		t.Error("there is room again:", err)
	}
	again.Discard()
}

// A file that is missing is told as damage, and keeps a copy from being called complete.
func TestAMissingText(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir()})
	if err := os.Remove(s.texts.path(filedMail(t, s, 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mail().Open(t.Context(), 1); !errors.Is(err, store.ErrCorrupt) ||
		!strings.Contains(err.Error(), store.MailID(1).String()) {
		t.Error(err)
	}
	folder := filepath.Join(t.TempDir(), "copy")
	if err := s.Mail().Backup(t.Context(), folder, nil); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what is not complete is left:", err)
	}
	execute(t, raw(t, s.files.folder), `UPDATE messages SET file = '../weir.db'`)
	if _, err := s.Mail().Open(t.Context(), 1); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	if err := s.Mail().Backup(t.Context(), folder, nil); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	if err := s.Mail().Update(t.Context(),
		func(tx store.MailTx) error { return tx.RemoveAddressees(1, 0) }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Path()); err != nil {
		t.Error("a name from the file leads out of the folder:", err)
	}
}

// Sweep leaves alone what weir has not made, and everything while a copy is made.
func TestSweepIsCareful(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir()})
	future := time.Now().Add(time.Hour)
	name := filedMail(t, s, 1)
	folder := filepath.Dir(s.texts.path(name))
	var mine []string
	for _, other := range []string{"README", name + "~", strings.ToLower(name), "x" + name[1:], "ORPHAN" + name[6:]} {
		path := filepath.Join(folder, other)
		mine = append(mine, path)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	orphan := filepath.Join(folder, name[:2]+strings.Repeat("7", nameLength-2))
	for _, suffix := range []string{"", unsealed} {
		if err := os.WriteFile(orphan+suffix, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.texts.folder, "README"), nil, 0o600); err != nil { // where folders should be
		t.Fatal(err)
	}
	release := s.texts.hold()
	if n, err := s.Mail().Sweep(t.Context(), future); n != (store.Swept{}) || err != nil {
		t.Error(n, err)
	}
	if err := s.Mail().Update(t.Context(),
		func(tx store.MailTx) error { return tx.RemoveAddressees(1, 0) }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.texts.path(name)); err != nil {
		t.Error("a copy may need it:", err)
	}
	release()
	if _, err := os.Stat(s.texts.path(name)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("nobody needs it:", err)
	}
	if n, err := s.Mail().Sweep(t.Context(), future); n != (store.Swept{Removed: 1, SetAside: 1}) || err != nil {
		t.Error(n, err)
	}
	for _, path := range mine {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// Whoever starts with an empty store, or puts an old copy in its place, does not lose the texts of mail that it does
// not know.
func TestTextsOfAnotherStoreAreSetAside(t *testing.T) {
	for name, replace := range map[string]func(data, copied string) error{
		"empty": func(data, _ string) error { return os.Remove(filepath.Join(data, File)) },
		"old copy": func(data, copied string) error {
			return os.Rename(filepath.Join(copied, File), filepath.Join(data, File))
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
			s := mustOpen(t, Options{Folder: data})
			filedMail(t, s, 1)
			if err := s.Mail().Backup(t.Context(), copied, nil); err != nil {
				t.Fatal(err)
			}
			later := filedMail(t, s, 2)
			want, err := os.ReadFile(s.texts.path(later))
			if err := errors.Join(err, s.Close(), replace(data, copied)); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, Options{Folder: data})
			now := time.Now().Add(time.Hour)
			unknown := map[string]int{"empty": 2, "old copy": 1}[name]
			if n, err := s.Mail().Sweep(t.Context(), now); n != (store.Swept{SetAside: unknown}) || err != nil {
				t.Error(n, err)
			}
			aside := filepath.Join(data, store.AsideFolder, later)
			if got, err := os.ReadFile(aside); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %v", len(got), err)
			}
			// It stays for a while, and not for ever.
			if n, err := s.Mail().Sweep(t.Context(), now.Add(store.KeepAside)); n != (store.Swept{}) || err != nil {
				t.Error(n, err)
			}
			if n, err := s.Mail().Sweep(t.Context(),
				now.Add(store.KeepAside+time.Minute)); n != (store.Swept{Removed: unknown}) || err != nil {
				t.Error(n, err)
			}
		})
	}
}

// What is to be removed after a copy is made is bounded; what is over it is left to Sweep.
func TestHeldRemovalsAreBounded(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir()})
	kept, over := filedMail(t, s, 1), filedMail(t, s, 2)
	release := s.texts.hold()
	s.texts.committed(nil, make([]string, maxHeld-1))
	for id := range store.MailID(2) {
		if err := s.Mail().Update(t.Context(),
			func(tx store.MailTx) error { return tx.RemoveAddressees(id+1, 0) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.texts.held) != maxHeld {
		t.Errorf("%d are held", len(s.texts.held))
	}
	release()
	if _, err := os.Stat(s.texts.path(kept)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(s.texts.path(over)); err != nil {
		t.Error(err)
	}
	if n, err := s.Mail().Sweep(t.Context(), time.Now().Add(time.Hour)); n != (store.Swept{SetAside: 1}) || err != nil {
		t.Error(n, err)
	}
}

// A copy may go to a folder with any name, also one that is relative.
func TestCopiesToStrangeFolders(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir()})
	filedMail(t, s, 1)
	t.Chdir(t.TempDir())
	for _, folder := range []string{"copy", "50% of weir? #1 & 'x' \"y\" + ü", "./b/"} {
		if err := s.Mail().Backup(t.Context(), folder, nil); err != nil {
			t.Error(err)
			continue
		}
		copied := mustOpen(t, Options{Folder: folder})
		if r, err := copied.Mail().Open(t.Context(), 1); err != nil {
			t.Error(err)
		} else if err := r.Close(); err != nil {
			t.Error(err)
		}
		if all, err := os.ReadDir(folder); err != nil || len(all) != 5 { // with the log, what is shared, and the lock
			t.Error(all, err)
		}
	}
}

// A text that is missing or cut off is told, and a part of it is never delivered.
func TestCheckTexts(t *testing.T) {
	t.Parallel()
	folder := filled(t, keptEach)
	files, err := filepath.Glob(filepath.Join(folder, MailFolder, "*", "*"))
	must(t, err)
	must(t, errors.Join(os.Remove(files[0]), os.Truncate(files[1], 1000), os.WriteFile(files[2]+unsealed, nil, 0o600)))
	c, err := Check(t.Context(), folder, nil)
	if err != nil || !c.Damaged() || c.Losses != 2 || len(c.Lost) != 2 || c.Partial != 1 || len(c.Damage) != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	said := strings.Join(c.Lost, "\n")
	for _, want := range []string{"its text is missing (" + filepath.Base(files[0]),
		"its text has 1000 bytes instead of"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s does not say %q", said, want)
		}
	}
	s := mustOpen(t, Options{Folder: folder})
	unreadable := 0
	for i := range keptEach / filedEvery {
		r, err := s.Mail().Open(t.Context(), store.MailID((i+1)*filedEvery))
		if errors.Is(err, store.ErrCorrupt) {
			unreadable++
		} else {
			must(t, errors.Join(err, r.Close()))
		}
	}
	if unreadable != 2 {
		t.Errorf("%d texts cannot be read", unreadable)
	}
}

// TestCheckSums: a bit that a failing disk has changed is found, although nothing else shows it.
func TestCheckSums(t *testing.T) {
	t.Parallel()
	folder := filled(t, filedEvery)
	files, err := filepath.Glob(filepath.Join(folder, MailFolder, "*", "*"))
	must(t, err)
	b, err := os.ReadFile(files[0])
	must(t, err)
	b[100] ^= 1
	must(t, os.WriteFile(files[0], b, 0o600))
	db := filepath.Join(folder, File)
	b, err = os.ReadFile(db)
	must(t, err)
	short := salvageText(1)[:100] // SQLite may have left copies where it moved rows
	must(t, os.WriteFile(db, bytes.ReplaceAll(b, short, append([]byte{short[0] ^ 1}, short[1:]...)), 0o600))
	c, err := Check(t.Context(), folder, nil)
	if err != nil || !c.Damaged() || len(c.Damage) != 0 || c.Losses != 2 ||
		!strings.Contains(c.Lost[0], "its text has changed: the sum is another one ("+File) ||
		!strings.Contains(c.Lost[1], "its text has changed") {
		t.Errorf("%+v, %v", c, err)
	}
}
