package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/store"
)

const (
	// SalvagedFolder, in the data folder, gets texts of mail whose recipients are unknown.
	SalvagedFolder = "mail-salvaged"
	// building is where a new database is made, in the data folder.
	building = "weir.salvage"
	// batchRows is how many rows are salvaged in one transaction.
	batchRows = 2000
)

// Salvaged is what Salvage has done.
type Salvaged struct {
	Path     string          `json:"path"`               // of the database
	Damaged  string          `json:"damaged,omitempty"`  // the path of the old one; empty: it was whole, or not there
	Rebuilt  bool            `json:"rebuilt"`            // there is a new one
	Tables   []SalvagedTable `json:"tables,omitempty"`   // that the old one had rows of
	Held     int             `json:"held"`               // mails that came back from files, as held
	Returned int             `json:"returned"`           // texts of mails that had been set aside
	Unknown  int             `json:"unknown"`            // texts in Folder, whose recipients are unknown
	Folder   string          `json:"folder,omitempty"`   // where those are
	Lost     []LostMail      `json:"lost,omitempty"`     // mails whose text is gone, up to MaxLost
	MoreLost int             `json:"more_lost,omitzero"` // … and so many more
}

// MaxLost is how many mails without a text are listed.
const MaxLost = 1000

// A LostMail is what is known of a mail whose text is gone.
type LostMail struct {
	Mail store.MailID `json:"mail"`
	To   []string     `json:"to"`
}

// SalvagedTable is what became of a kind of rows.
type SalvagedTable struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	// of them, on pages of no table: they may have been deleted long ago
	Doubted int `json:"doubted,omitempty"`
	Spoilt  int `json:"spoilt,omitempty"` // left out because they make no sense
}

// Salvage brings back what is left of a store whose database is damaged or lost. No program may have it open. Rows that
// can be read go into a new database, and the old one is kept beside it. Files that no row names are held as mail for
// all their recipients, or moved to SalvagedFolder if those are unknown. A database that is whole stays, and the mail
// of such files is added to it.
//
// Rows on pages that belong to no table may be out of date: such recipients are held, and such users disabled.
func Salvage(ctx context.Context, folder string, now time.Time, progress func(done, total int64)) (r Salvaged,
	err error) {
	f, release, err := lockFolder(folder)
	if err != nil {
		return r, err
	}
	defer release()
	r.Path = f.db
	whole, err := f.whole(ctx)
	if err != nil {
		return r, err
	}
	v := &salvage{ctx: ctx, now: now, files: f, result: &r, progress: progress}
	if progress == nil {
		v.progress = func(int64, int64) {}
	}
	v.texts.folder = f.texts().folder
	if err := v.measure(); err != nil {
		return r, err
	}
	if !whole && v.total == 0 {
		return r, fmt.Errorf("there is no store, and no mail, in %s: %w", f.folder, store.ErrNotFound)
	}
	if whole {
		err = v.inPlace()
	} else {
		err = v.rebuild()
	}
	return r, errors.Join(err, ownAll(f.folder, filepath.Join(f.folder, SalvagedFolder)))
}

// lockFolder keeps every other weir out of a data folder until release is called.
func lockFolder(folder string) (f *files, release func(), err error) {
	if folder == "" {
		return nil, nil, fmt.Errorf("there is no data folder: %w", store.ErrInvalid)
	}
	if f, err = filesIn(folder); err != nil {
		return nil, nil, err
	}
	if err := f.prepare(); err != nil {
		return nil, nil, err
	}
	_, missing := os.Lstat(f.lock)
	l, err := takeLock(f.lock)
	if err != nil {
		return nil, nil, unwritable(err)
	}
	return f, func() {
		if missing != nil {
			_ = os.Remove(f.lock) // while it is locked: whoever comes next makes a new one
		}
		l.release()
	}, nil
}

type salvage struct {
	ctx         context.Context
	now         time.Time
	files       *files
	texts       texts
	result      *Salvaged
	progress    func(done, total int64)
	done, total int64

	to       *session
	tables   map[string]*table
	counts   map[string]*SalvagedTable // by table
	pending  int
	doubtful []int64 // mails
	failed   error
}

func (v *salvage) measure() error {
	for _, path := range []string{v.files.db, v.files.db + "-wal"} {
		if info, err := os.Stat(path); err == nil {
			v.total += info.Size()
		}
	}
	for _, at := range []string{v.texts.folder, v.texts.aside()} {
		if err := walk(at, func(string, fs.DirEntry) { v.total++ }); err != nil {
			return err
		}
	}
	v.progress(0, v.total)
	return nil
}

// inPlace adds mail from files to a database that is whole.
func (v *salvage) inPlace() error {
	var err error
	if v.to, err = v.files.connect(v.ctx, Options{}.withDefaults(), migrations); err != nil {
		return v.files.explain(err)
	}
	return v.files.explain(errors.Join(v.adopt(), v.to.close()))
}

// rebuild makes a new database from the rows that can be read of the old one, and replaces the old one.
func (v *salvage) rebuild() (err error) {
	at := filepath.Join(v.files.folder, building)
	if err := os.RemoveAll(at); err != nil { // what is left of one that was broken off
		return err
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		return unwritten(err)
	}
	defer os.RemoveAll(at)
	fresh, err := filesIn(at)
	if err != nil {
		return err
	}
	if err := fresh.create(); err != nil {
		return unwritten(err)
	}
	if v.to, err = fresh.connect(v.ctx, Options{}.withDefaults(), migrations); err != nil {
		return fresh.explain(err)
	}
	v.tables, err = tablesOf(v.to)
	for _, step := range []func() error{v.read, v.mend, v.adopt, v.sound} {
		if err == nil {
			err = step()
		}
	}
	if err = errors.Join(err, v.to.close()); err != nil {
		return fresh.explain(err)
	}
	return v.replace(fresh.db)
}

// sound wants the new database to be whole.
func (v *salvage) sound() error {
	v.to.ctx = v.ctx
	found, err := v.to.first("PRAGMA integrity_check(1)")
	if err == nil && found != "ok" {
		err = fmt.Errorf("%w: what was salvaged: %s", store.ErrCorrupt, found)
	}
	return err
}

// replace renames the old database and moves the new one to its place. The old log is moved first: it would damage a
// new database.
func (v *salvage) replace(fresh string) error {
	old := v.files.db + ".damaged-" + v.now.UTC().Format("20060102T150405")
	for i := 2; ; i++ {
		if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
			break
		}
		old = fmt.Sprintf("%s.damaged-%s-%d", v.files.db, v.now.UTC().Format("20060102T150405"), i)
	}
	if file, err := os.Open(fresh); err != nil {
		return err
	} else if err := errors.Join(file.Sync(), file.Close(), ownAll(v.files.folder, fresh)); err != nil {
		return unwritten(err)
	}
	for _, end := range []string{"-wal", "-shm", ""} {
		switch err := os.Rename(v.files.db+end, old+end); {
		case err == nil && end != "-shm":
			v.result.Damaged = old
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return unwritten(err)
		}
	}
	if err := os.Rename(fresh, v.files.db); err != nil {
		return unwritten(err)
	}
	v.result.Rebuilt = true
	return unwritten(syncFolder(v.files.folder))
}

// A table says how the rows of a table are stored in a file.
type table struct {
	name    string
	columns []column // in the order of the file
	id      int      // the column that is the rowid; -1: none is
	index   bool     // WITHOUT ROWID: the table is an index
	root    uint32   // of the new database
	check   func(row) error
}

type column struct {
	name, kind string
	null       bool
}

// tablesOf reads the tables of a database, by name.
func tablesOf(s *session) (map[string]*table, error) {
	tables := map[string]*table{}
	if err := s.query(func(r row) error {
		t := &table{name: r.text(0), root: uint32(r.int(1)), index: r.bool(2), id: -1, check: checks[r.text(0)]}
		tables[t.name] = t
		return nil
	}, `SELECT s.name, s.rootpage, l.wr FROM sqlite_schema s JOIN pragma_table_list l ON l.name = s.name
		WHERE s.type = 'table' AND l.schema = 'main' AND s.name NOT LIKE 'sqlite%' AND s.name NOT LIKE '%_kept'`); err != nil { // those are counted again
		return nil, err
	}
	for _, t := range tables {
		var keys, rest []column
		if err := s.query(func(r row) error {
			c := column{r.text(0), r.text(1), !r.bool(2)}
			switch pk := r.int(3); {
			case t.index && pk > 0:
				keys = append(keys, c) // declared in the order of the key
			case pk > 0 && c.kind == "INTEGER":
				t.id = len(rest)
				fallthrough
			default:
				rest = append(rest, c)
			}
			return nil
		}, `SELECT name, type, "notnull", pk FROM pragma_table_info(?) ORDER BY cid`, t.name); err != nil {
			return nil, err
		}
		t.columns = append(keys, rest...)
	}
	return tables, nil
}

func (t *table) names() string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

func (t *table) inspect(s *session, tell func(string)) error {
	if t.check == nil {
		return nil
	}
	return s.query(func(r row) error {
		if err := t.check(r); err != nil {
			tell(fmt.Sprintf("a row of %s: %s", t.name, err))
		}
		return nil
	}, "SELECT "+t.names()+" FROM "+t.name)
}

func (t *table) fits(r record) bool {
	if len(r.values) != len(t.columns) {
		return false
	}
	for i, c := range t.columns {
		ok := false
		switch r.values[i].(type) {
		case nil:
			ok = c.null || i == t.id
		case int64:
			ok = c.kind == "INTEGER" && i != t.id
		case string:
			ok = c.kind == "TEXT"
		case []byte:
			ok = c.kind == "BLOB"
		}
		if !ok {
			return false
		}
	}
	return true
}

// read takes over all rows of the old database: first those of its tables, then those on pages of no table.
func (v *salvage) read() error {
	w, err := openPages(v.files.db)
	if err != nil {
		return err
	}
	defer w.close()
	w.told = func(pages uint32) { v.progress(min(v.done+int64(pages)*pageSize, v.total), v.total) }
	if err := v.to.exec("BEGIN"); err != nil {
		return err
	}
	v.counts = map[string]*SalvagedTable{}
	roots, indexes := w.roots()
	if len(roots) == 0 { // the list of tables is lost: most likely they begin on the same pages as in a new database
		for name, t := range v.tables {
			roots[name] = t.root
		}
	}
	for _, name := range slices.Sorted(maps.Keys(roots)) {
		t := v.tables[name]
		w.walk(roots[name], func(r record) {
			if t != nil {
				v.take(t, r, false)
			}
		})
	}
	for _, root := range indexes {
		w.walk(root, func(record) {})
	}
	w.skipFree()
	w.strays(func(kind byte, r record) {
		for _, t := range v.tables {
			if t.index == (kind != leafTable) && t.fits(r) {
				v.take(t, r, true)
				return
			}
		}
	})
	v.done += int64(w.pages) * pageSize
	for _, name := range slices.Sorted(maps.Keys(v.counts)) {
		v.result.Tables = append(v.result.Tables, *v.counts[name])
	}
	return cmp.Or(v.failed, v.to.exec("COMMIT"))
}

// roots returns the first pages of tables by name, and of indexes.
func (w *pageReader) roots() (tables map[string]uint32, indexes []uint32) {
	tables = map[string]uint32{}
	w.walk(1, func(r record) {
		if len(r.values) != 5 {
			return
		}
		row := row(r.values)
		switch root := uint32(row.int(3)); row.text(0) {
		case "table":
			tables[row.text(1)] = root
		case "index":
			indexes = append(indexes, root)
		}
	})
	return tables, indexes
}

// take takes a row over. Of several with the same key the first stays.
func (v *salvage) take(t *table, r record, doubted bool) {
	if v.failed = cmp.Or(v.failed, v.ctx.Err()); v.failed != nil {
		return
	}
	of := v.counts[t.name]
	if of == nil {
		of = &SalvagedTable{Name: t.name}
		v.counts[t.name] = of
	}
	if !t.fits(r) {
		of.Spoilt++
		return
	}
	values := slices.Clone(r.values)
	if t.id >= 0 {
		values[t.id] = r.id
	}
	if t.check != nil && t.check(values) != nil {
		of.Spoilt++
		return
	}
	if doubted {
		switch t.name {
		case "operators", "sessions", "tokens": // what was removed must not let anybody in again
			of.Spoilt++
			return
		case "addressees":
			values[5] = int64(store.Held)
		case "users":
			values[5] = int64(1) // disabled
		case "messages":
			v.doubtful = append(v.doubtful, r.id)
		}
	}
	n, err := v.to.run("INSERT OR IGNORE INTO "+t.name+" ("+t.names()+") VALUES (?"+
		strings.Repeat(", ?", len(values)-1)+")", anys(values)...)
	switch {
	case err != nil && endsTransaction(err):
		v.failed = err
		return
	case err != nil:
		of.Spoilt++
		return
	case n == 0: // there is one already
		return
	}
	of.Rows++
	if doubted {
		of.Doubted++
	}
	if v.pending++; v.pending%batchRows == 0 {
		v.failed = cmp.Or(v.to.exec("COMMIT"), v.to.exec("BEGIN"))
	}
}

func anys(values []driver.Value) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// checks say whether a row makes sense, by table. One that does not would keep all others from being read.
var checks = map[string]func(row) error{
	"bans": sane(readBan), "counters": sane(readCounter), "settings": sane(readSetting),
	"users": sane(readUser), "memories": sane(readMemory),
	"sketches": sane(readSketch), "addressees": sane(readAddressee), "entries": sane(readEntry),
	"acts": sane(readAct), "operators": sane(readOperator), "sessions": sane(readSession), "tokens": sane(readToken),
	"logins": sane(readLogIn), "ceilings": sane(readCeiling),
	"known": func(r row) error { return store.CheckKnown(r.text(1), r.text(0), r.bytes(2)) },
	"messages": func(r row) error {
		file := r.text(10)
		if r[10] != nil && !validName(file) || file == "" && int64(len(r.bytes(11))) != r.int(7)+sumSize {
			return store.ErrCorrupt
		}
		return sane(readMessage)(r)
	},
}

func sane[T any](read func(row) (T, error)) func(row) error {
	return func(r row) error {
		_, err := read(r)
		return err
	}
}

// mend repairs mails that have lost some of their rows.
func (v *salvage) mend() error {
	if err := v.to.exec("BEGIN"); err != nil {
		return err
	}
	for _, id := range v.doubtful {
		if err := v.to.exec(`UPDATE addressees SET state = ? WHERE mail = ?`, int64(store.Held), id); err != nil {
			return err
		}
	}
	if err := v.mendMessages(); err != nil {
		return err
	}
	lost := map[store.MailID][]string{}
	if err := v.to.query(func(r row) error {
		id := store.MailID(r.int(0))
		lost[id] = append(lost[id], r.text(1))
		return nil
	},
		`SELECT mail, address FROM addressees WHERE mail NOT IN (SELECT id FROM messages) ORDER BY mail, number`); err != nil {
		return err
	}
	if err := v.notes(lost); err != nil { // a file may have what the row had
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		if len(v.result.Lost) == MaxLost {
			v.result.MoreLost++
		} else {
			v.result.Lost = append(v.result.Lost, LostMail{id, lost[id]})
		}
		if err := v.log("lost", "", id, "its text is gone; it was to "+strings.Join(lost[id], ", ")); err != nil {
			return err
		}
	}
	return cmp.Or(
		v.to.exec(`DELETE FROM addressees WHERE mail NOT IN (SELECT id FROM messages)`),
		v.to.exec(`DELETE FROM known WHERE (user, throttle) NOT IN (SELECT user, throttle FROM sketches)`),
		v.to.exec(`DELETE FROM acts WHERE entry NOT IN (SELECT id FROM entries)`),
		v.to.exec(`UPDATE stamps_kept SET n = (SELECT count(*) FROM stamps)`),
		v.to.exec("COMMIT"))
}

// notes restores the messages in lost whose note is in a file.
func (v *salvage) notes(lost map[store.MailID][]string) error {
	if len(lost) == 0 {
		return nil
	}
	return v.unknown(func(path, name string) error {
		n, size, err := readNote(path)
		if err != nil || lost[n.ID] == nil {
			return nil
		}
		l, _, err := n.held(size)
		if err != nil {
			return nil
		}
		delete(lost, n.ID)
		if err := v.moveBack(path, name); err != nil {
			return err
		}
		if err := v.to.exec(`UPDATE addressees SET state = ? WHERE mail = ?`, int64(store.Held),
			int64(l.ID)); err != nil {
			return err
		}
		v.result.Held++
		return cmp.Or(v.putMessage(&l, name),
			v.log("salvaged", l.User, l.ID, "its text was in a file; its recipients are held"))
	})
}

// mendMessages removes mails without recipients. Texts in the database are exported; adopt looks for notes in files.
func (v *salvage) mendMessages() error {
	var alone []int64
	if err := v.to.query(func(r row) error { alone = append(alone, r.int(0)); return nil },
		`SELECT id FROM messages WHERE id NOT IN (SELECT mail FROM addressees)`); err != nil {
		return err
	}
	for _, id := range alone {
		var file string
		var text []byte
		if err := v.to.query(func(r row) error { file, text = r.text(0), r.bytes(1); return nil },
			`SELECT file, text FROM messages WHERE id = ?`, id); err != nil {
			return err
		}
		if file == "" { // one in a file is found by adopt
			if err := v.export(store.MailID(id).String(),
				func(w io.Writer) error { _, err := w.Write(text[:len(text)-sumSize]); return err }); err != nil {
				return err
			}
		}
		if err := v.to.exec(`DELETE FROM messages WHERE id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

func (v *salvage) log(what, user string, id store.MailID, text string) error {
	if len(text) > store.MaxEntryText {
		text = strings.ToValidUTF8(text[:store.MaxEntryText], "")
	}
	return v.to.exec(`INSERT INTO entries (at, by, what, user, mail, text) VALUES (?, 'weir', ?, ?, ?, ?)`,
		nanos(v.now), what, user, int64(id), text)
}
