package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"modernc.org/sqlite"

	"weir"
	"weir/store"
)

const (
	readers   = 4        // connections for reading
	checkUpTo = 64 << 20 // a larger file is not read through when it is opened
	maxLog    = 64 << 20 // what is left of the write-ahead log after it was carried over
	pageSize  = 4096
	// pages of the log after which it is carried over into the database; rows that were deleted by then never get there
	carryOver = 4000
	cacheSize = 16 << 20 // of the writer; readers have SQLite's default
)

// A Store is a store.Store in a SQLite file. Make one with Open. It is safe for concurrent use.
type Store struct {
	opts    Options
	files   files
	lock    *lock
	writer  *session
	views   chan *session // connections of readers; nil for one that is not connected yet
	viewing driver.Connector
	texts   texts

	gate       sync.RWMutex // of closed
	closed     bool
	reads      sync.WaitGroup // that are under way
	closing    sync.Once
	closingErr error
	queue      chan *write
	idle       chan struct{} // closed when the writer has ended
	counts     counts
}

var _ store.Store = (*Store)(nil)

// files are the names of a data folder and of what is in it.
type files struct{ folder, db, lock string }

func filesIn(folder string) (*files, error) {
	folder, err := filepath.Abs(folder)
	return &files{folder, filepath.Join(folder, File), filepath.Join(folder, LockFile)}, err
}

// texts are the files of mails.
func (f *files) texts() texts { return texts{folder: filepath.Join(f.folder, MailFolder)} }

// Open opens the store in a data folder, and makes it when there is none. ctx is for opening alone.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o, migrations)
	if err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

// open does everything but start the writer.
func open(ctx context.Context, o Options, steps []string) (_ *Store, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	f, err := filesIn(o.Folder)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, files: *f, queue: make(chan *write, o.MaxWaiting), idle: make(chan struct{}),
		views: make(chan *session, readers)}
	s.texts.folder = f.texts().folder
	for range readers {
		s.views <- nil
	}
	defer func() {
		if err != nil {
			s.free()
		}
	}()
	if err := s.files.prepare(); err != nil {
		return nil, err
	}
	if s.lock, err = takeLock(s.files.lock); err != nil {
		return nil, unwritable(err)
	}
	if err := s.files.beheaded(); err != nil {
		return nil, err
	}
	if err := s.files.create(); err != nil {
		return nil, unwritable(err)
	}
	if s.writer, err = s.files.connect(ctx, o, steps); err != nil {
		return nil, s.files.explain(err)
	}
	s.writer.own = tx{files: &s.files, texts: &s.texts}
	s.viewing, err = s.files.connector(o, true)
	return s, err
}

// connect returns a session that may write, to a file that is checked and up to date.
func (f *files) connect(ctx context.Context, o Options, steps []string) (*session, error) {
	to, err := f.connector(o, false)
	if err != nil {
		return nil, err
	}
	s, err := newSession(ctx, to)
	if err != nil {
		return nil, err
	}
	if err := f.check(s); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.migrate(steps); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.ctx = forever // one that can end would cost a goroutine for each statement
	return s, nil
}

// prepare checks the data folder. SQLite's own errors about it say less.
func (f *files) prepare() error {
	info, err := os.Stat(f.folder)
	switch {
	case err != nil:
		return fmt.Errorf("the data folder %w: %w", store.ErrUnwritable, err)
	case !info.IsDir():
		return fmt.Errorf("the data folder %w: %s is a file", store.ErrUnwritable, f.folder)
	}
	if info, err := os.Stat(f.db); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s %w: it is not a file", f.db, store.ErrUnwritable)
	}
	mail := f.texts().folder
	if info, err := os.Stat(mail); err == nil && !info.IsDir() {
		return fmt.Errorf("%s %w: it is not a folder, and the texts of messages belong there", mail, store.ErrUnwritable)
	}
	return nil
}

// beheaded returns ErrCorrupt for a log without its database. SQLite would remove the log and all that it committed.
func (f *files) beheaded() error {
	if log, err := os.Stat(f.db + "-wal"); err != nil || log.Size() == 0 {
		return nil
	}
	if db, err := os.Stat(f.db); err == nil && db.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%s: %w: it is empty, or was moved away, and its log was not%s", f.db, store.ErrCorrupt,
		hints[store.ErrCorrupt])
}

func unwritable(err error) error {
	if errors.Is(err, store.ErrInUse) {
		return err
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("the data folder %w: %w", store.ErrUnwritable, err)
	}
	return err
}

// create makes an empty file that only weir may read, unless it is there. SQLite gives its other files the same mode.
func (f *files) create() error {
	file, err := os.OpenFile(f.db, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	_ = syncFolder(f.folder) // so that the file is still there after a power failure
	return nil
}

// connector makes connections for the writer, or connections that only read.
func (f *files) connector(o Options, reads bool) (driver.Connector, error) {
	q := url.Values{
		"mode":          {"rw"},
		"_busy_timeout": {strconv.FormatInt(max(o.Patience.Milliseconds(), 1), 10)},
		"_defensive":    {"1"},
		"_dqs":          {"0"},
		"_error_rc":     {"1"},
		"_pragma": {
			"journal_mode(wal)",
			"synchronous(full)",
			"trusted_schema(off)",
			fmt.Sprintf("journal_size_limit(%d)", min(maxLog, 4*pageSize*f.logPages())),
			fmt.Sprintf("wal_autocheckpoint(%d)", f.logPages()),
		},
	}
	if reads {
		q.Set("_query_only", "1")
	} else {
		q.Add("_pragma", fmt.Sprintf("cache_size(-%d)", cacheSize>>10))
	}
	if o.MaxBytes > 0 {
		q.Add("_pragma", fmt.Sprintf("max_page_count(%d)", o.MaxBytes/pageSize))
	}
	return sqlite.NewConnector(f.address(q.Encode()))
}

// address is the URL of the database, with options of the driver.
func (f *files) address(options string) string {
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(f.db), RawQuery: options}
	return name.String()
}

// check reads all of a file of up to checkUpTo bytes, so that damage is reported at the start.
func (f *files) check(s *session) error {
	if mode, err := s.first("PRAGMA journal_mode"); err != nil {
		return err
	} else if mode != "wal" {
		return fmt.Errorf("%w with a write-ahead log, as the file system cannot share memory (the journal is %q)",
			store.ErrUnwritable, mode)
	}
	if info, err := os.Stat(f.db); err != nil || info.Size() > checkUpTo {
		return err
	}
	found, err := s.first("PRAGMA quick_check(1)")
	if err == nil && found != "ok" {
		err = fmt.Errorf("%w: %s%s", store.ErrCorrupt, found, hints[store.ErrCorrupt])
	}
	return err
}

// Close commits everything that was asked for before, waits for readers, and closes the files. It may be called again.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.gate.Lock()
		s.closed = true
		close(s.queue)
		s.gate.Unlock()
		<-s.idle
		s.reads.Wait()
		s.closingErr = s.free()
	})
	return s.closingErr
}

func (s *Store) free() error {
	var errs []error
	for range readers {
		if view := <-s.views; view != nil {
			errs = append(errs, view.close())
		}
	}
	if s.writer != nil { // the last one to close carries the log over and removes it
		errs = append(errs, s.writer.close())
	}
	if s.lock != nil {
		s.lock.release()
	}
	return s.files.explain(errors.Join(errs...))
}

// Path is the path of the database file.
func (s *Store) Path() string { return s.files.db }

func (s *Store) alive() error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	return nil
}

// read keeps the files open until done is called.
func (s *Store) read() (done func(), err error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	s.reads.Add(1)
	return s.reads.Done, nil
}

func nanos(t time.Time) int64 { return t.UnixNano() }

func moment(n int64) time.Time { return time.Unix(0, n).UTC() }

// Names of the files in the data folder. SQLite adds File with -wal and -shm behind it while the store is open.
const (
	File     = store.File
	LockFile = "weir.lock"

	// MailFolder has the texts of mails that are too long for the file.
	MailFolder = "mail"
)

// Bounds of options.
const (
	MaxWaitingCap = 1_000_000
	MinBytes      = 256 << 10 // an empty file has more than half of it
	maxPatience   = 10 * time.Minute
)

// Options say where the store is and how much it may take. The zero value of every field but Folder means its default.
type Options struct {
	Folder     string        // the data folder, which must be there
	MaxBytes   int64         // how large the file may get; 0: as large as the disk allows
	MaxWaiting int           // how many writes may wait; one more gets store.ErrTooMany. Default 16384
	Patience   time.Duration // how long a write waits while another program has the file locked. Default 5s
	// bytes of the disk that new mail leaves free; negative: none. Default 64 MiB, or 2 % of the disk where that is
	// less
	Reserve int64
}

func (o Options) withDefaults() Options {
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 16_384)
	o.Patience = cmp.Or(o.Patience, 5*time.Second)
	return o
}

func (o Options) validate() error {
	var v weir.Mistakes
	if o.Folder == "" {
		v.Add("folder", "there is no data folder", "write data: /var/lib/weir")
	}
	if o.MaxBytes != 0 && o.MaxBytes < MinBytes {
		v.Add("max_bytes", fmt.Sprintf("%d bytes are too few", o.MaxBytes),
			fmt.Sprintf("at least %s", weir.Size(MinBytes)))
	}
	if o.MaxWaiting < 0 || o.MaxWaiting > MaxWaitingCap {
		v.Add("max_waiting", fmt.Sprintf("%d is out of bounds", o.MaxWaiting), fmt.Sprintf("1 to %d", MaxWaitingCap))
	}
	if o.Patience < 0 || o.Patience > maxPatience {
		v.Add("patience", fmt.Sprintf("%s is out of bounds", o.Patience),
			fmt.Sprintf("up to %s", weir.Duration(maxPatience)))
	}
	return v.Err()
}
