package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"weir/store"
)

// hints say what an operator should do about an error.
var hints = map[error]string{
	store.ErrCorrupt: "; stop weir, and put a copy in its place, or run weir store salvage, which brings back what " +
		"can be read",
	store.ErrFull: "; make room on the disk",
}

// explain turns an error of SQLite into one of the contract, and names the file.
func (f *files) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if named := meaning(err); named != nil {
		return fmt.Errorf("%s: %w (%w%s)", f.db, named, err, hints[named])
	}
	return fmt.Errorf("%s: %w", f.db, err)
}

// meaning is the error of the contract that an error of SQLite stands for, or nil.
func meaning(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return store.ErrCorrupt
	case lib.SQLITE_FULL:
		return store.ErrFull
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return store.ErrBusy
	case lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM:
		return store.ErrUnwritable
	case lib.SQLITE_TOOBIG:
		return store.ErrTooLarge
	}
	return nil
}

// endsTransaction reports whether SQLite may have rolled back the whole transaction because of an error.
func endsTransaction(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return true // the driver gave up
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_TOOBIG, lib.SQLITE_MISMATCH, lib.SQLITE_RANGE, lib.SQLITE_ERROR:
		return false
	}
	return true
}
