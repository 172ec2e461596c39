package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// The space that new mail leaves free. It is for writes about mail that is there already: claims, results of
// deliveries, removals. On a full disk no mail could ever be delivered.
const (
	reserve      = 64 << 20
	reserveShare = 50 // of the file system: a fiftieth, where that is less
)

// Space returns how many bytes of the disk new mail may take before it reaches the reserve, less than 0 if it has; and
// how many bytes are free inside the database, on pages of deleted rows, for texts that are not in files. If the system
// does not say, there is always space.
func (m mail) Space() (disk, inside int64) {
	if m.opts.Reserve < 0 {
		return math.MaxInt64, 0
	}
	free, all, ok := diskSpace(m.files.folder)
	if !ok {
		return math.MaxInt64, 0
	}
	if log, err := os.Stat(m.files.db + "-wal"); err == nil { // as much may be needed to carry it over
		free -= log.Size()
	}
	kept := m.opts.Reserve
	if kept == 0 {
		kept = min(reserve, max(all/reserveShare, 2*pageSize*int64(m.files.logPages())))
	}
	if free > kept/2 { // what goes inside goes through the log
		inside = m.freeInside()
	}
	return free - kept, inside
}

func (m mail) freeInside() (bytes int64) {
	// Where it cannot be told there are none.
	_ = m.query(forever, func(r row) error { bytes = r.int(0) * pageSize; return nil }, "PRAGMA freelist_count")
	return bytes
}

// logShare is the part of a small file system that the write-ahead log gets before it is carried over.
const logShare = 64

// logPages is how many pages the log may have before it is carried over.
func (f *files) logPages() int {
	_, all, ok := diskSpace(f.folder)
	if !ok {
		return carryOver
	}
	return int(min(max(all/logShare/pageSize, 32), carryOver))
}

// Try does to the disk what a message does, and changes nothing: it writes to the database, and to a file in the folder
// of mail. It returns why that does not work. No two goroutines may call it at once.
func (s *Store) Try(ctx context.Context) error {
	err := s.write(ctx, 1, func(t *tx) error {
		_, err := t.run(fmt.Sprintf("PRAGMA application_id = %d", applicationID)) // what it is already
		return err
	})
	return errors.Join(err, unwritten(s.texts.try()))
}

func (t *texts) try() error {
	if err := t.makeFolder(t.folder); err != nil {
		return err
	}
	path := filepath.Join(t.folder, "try"+unsealed)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString("try")
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(path))
}
