package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"weir/store"
)

// Condition is what Check has found.
type Condition struct {
	Path     string   `json:"path"`
	Missing  bool     `json:"missing,omitempty"` // there is no database
	Version  int      `json:"version"`           // of its tables
	Bytes    int64    `json:"bytes"`
	Damage   []string `json:"damage"`   // what is wrong with the database, up to maxDamage lines
	Mails    int      `json:"messages"` // that wait
	Filed    int      `json:"filed"`    // … whose texts are in files
	Lost     []string `json:"lost"`     // mails whose text is missing or cut off, up to maxDamage
	Losses   int      `json:"losses"`   // how many they are
	Unknown  int      `json:"unknown"`  // files of no mail
	Partial  int      `json:"partial"`  // files that were incoming when weir ended
	SetAside int      `json:"set_aside"`
}

const maxDamage = 100

// Damaged reports whether something is lost, or would be if weir started.
func (c *Condition) Damaged() bool {
	return len(c.Damage) > 0 || c.Losses > 0 || c.Missing && c.Unknown+c.SetAside > 0
}

// Check looks through a store that no program has open. It changes nothing.
func Check(ctx context.Context, folder string, progress func(done, total int64)) (c Condition, err error) {
	f, release, err := lockFolder(folder)
	if err != nil {
		return c, err
	}
	defer release()
	c.Path, c.Damage, c.Lost = f.db, []string{}, []string{}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	known := map[string]bool{}
	switch info, err := os.Stat(f.db); {
	case errors.Is(err, fs.ErrNotExist):
		c.Missing = true
	case err != nil:
		return c, err
	default:
		c.Bytes = info.Size()
		if err := f.look(ctx, &c, known, progress); err != nil {
			return c, err
		}
	}
	return c, f.lookAround(ctx, &c, known)
}

// whole reports whether the database can be used as it is. One of a newer weir is an error, since it may be whole.
func (f *files) whole(ctx context.Context) (bool, error) {
	if _, err := os.Stat(f.db); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var c Condition
	if err := f.look(ctx, &c, nil, func(int64, int64) {}); err != nil {
		return false, err
	}
	return len(c.Damage) == 0, nil
}

// look reads the whole database. Damage that SQLite finds is not an error.
func (f *files) look(ctx context.Context, c *Condition, known map[string]bool, progress func(done, total int64)) error {
	before := f.beside()
	if info, err := os.Stat(f.db); err == nil && info.Size() == 0 {
		c.Damage = append(c.Damage, "it is empty") // SQLite would remove the log beside it
		return nil
	}
	to, err := sqlite.NewConnector(f.address("mode=ro&_pragma=trusted_schema(off)"))
	if err != nil {
		return err
	}
	s, err := newSession(ctx, to)
	if err == nil {
		err = f.inspect(s, c)
		if err == nil && len(c.Damage) == 0 && known != nil {
			err = f.lookForTexts(ctx, s, c, known, progress)
		}
		_ = s.close()
	}
	for path := range f.beside() { // a reader makes these files, and may not remove them
		if !before[path] {
			_ = os.Remove(path)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrCorrupt), meaning(err) == store.ErrCorrupt:
		c.Damage = append(c.Damage, err.Error())
		return nil
	}
	return f.explain(err)
}

func (f *files) beside() map[string]bool {
	there := map[string]bool{}
	for _, end := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(f.db + end); err == nil {
			there[f.db+end] = true
		}
	}
	return there
}

// inspect runs SQLite's own check, and then checks all rows and whether they belong together.
func (f *files) inspect(s *session, c *Condition) error {
	var err error
	if c.Version, err = s.version(len(migrations)); err == nil && c.Version == 0 {
		err = errForeign
	}
	if err != nil {
		return err
	}
	found := func(r row) error {
		if text := r.text(0); text != "ok" && len(c.Damage) < maxDamage {
			c.Damage = append(c.Damage, text)
		}
		return nil
	}
	if err := s.query(found, fmt.Sprintf("PRAGMA integrity_check(%d)", maxDamage)); err != nil || len(c.Damage) > 0 {
		return err
	}
	tables, err := tablesOf(s)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if err := tables[name].inspect(s, func(line string) { _ = found(row{line}) }); err != nil {
			return err
		}
	}
	for _, query := range []string{
		`SELECT 'a recipient of mail ' || mail || ', which is not there' FROM addressees WHERE mail NOT IN (SELECT id FROM messages) LIMIT 10`,
		`SELECT 'mail ' || id || ' has no recipients' FROM messages WHERE id NOT IN (SELECT mail FROM addressees) LIMIT 10`,
	} {
		if err := s.query(found, query); err != nil {
			return err
		}
	}
	return s.query(func(r row) error { c.Mails, c.Filed = int(r.int(0)), int(r.int(1)); return nil },
		`SELECT count(*), count(file) FROM messages`)
}

func (f *files) lookForTexts(ctx context.Context, s *session, c *Condition, known map[string]bool,
	progress func(done, total int64)) error {
	at, done := f.texts(), int64(0)
	return s.query(func(r row) error {
		id, size, name := store.MailID(r.int(0)), r.int(1), r.text(2)
		done++
		progress(done, int64(c.Mails))
		why := ""
		if name == "" {
			if text := r.bytes(3); int64(len(text)) == size+sumSize && !bytes.Equal(text, summed(text[:size])) {
				why, name = sumChanged, filepath.Base(f.db)
			}
		} else if n, has, err := readNote(at.path(name)); errors.Is(err, fs.ErrNotExist) {
			why = "its text is missing"
		} else if err != nil && !errors.Is(err, errNoNote) {
			why = "its text cannot be read: " + err.Error()
		} else if has != size {
			why = fmt.Sprintf("its text has %d bytes instead of %d", has, size)
		} else if err == nil {
			if sum, err := sumOf(at.path(name), size); err != nil {
				why = "its text cannot be read: " + err.Error()
			} else if sum != n.Sum {
				why = sumChanged
			}
		}
		if known[name] = true; why != "" {
			if c.Losses++; len(c.Lost) < maxDamage {
				c.Lost = append(c.Lost, fmt.Sprintf("%s: %s (%s)", id, why, name))
			}
		}
		return ctx.Err()
	}, `SELECT id, size, file, text FROM messages`)
}

const sumChanged = "its text has changed: the sum is another one"

// lookAround counts the files of no mail. If the database is damaged, which those are is unknown.
func (f *files) lookAround(ctx context.Context, c *Condition, known map[string]bool) error {
	at := f.texts()
	for _, folder := range []string{at.folder, at.aside()} {
		if err := walk(folder, func(_ string, d fs.DirEntry) {
			switch {
			case !validName(strings.TrimSuffix(d.Name(), unsealed)):
			case strings.HasSuffix(d.Name(), unsealed):
				c.Partial++
			case folder == at.aside():
				c.SetAside++
			case !known[d.Name()] && len(c.Damage) == 0:
				c.Unknown++
			}
		}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// walk calls each with all files below a folder, if there is one.
func walk(folder string, each func(path string, d fs.DirEntry)) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			each(path, d)
		}
		return err
	})
}
