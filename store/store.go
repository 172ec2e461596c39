package store

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// File is the one in the data folder without which there is no store.
const File = "weir.db"

// Bounds of what may be stored, in bytes and in entries.
const (
	MaxClient   = 256    // the id of a client
	MaxReason   = 512    // of a ban
	MaxBy       = 128    // who banned
	MaxThrottle = 128    // the name of a throttle
	MaxRule     = 256    // what a rule counts
	MaxAccount  = 256    // the id of an account
	MaxBatch    = 10_000 // entries in one call
)

// A Store is durable state, open for use. Close completes what is under way and frees the store for others. After it
// every call returns ErrClosed. A second Close does nothing.
type Store interface {
	Bans() Bans
	Counters() Counters
	Ceilings() Ceilings
	Mail() Mail
	Access() Access
	Settings() Settings
	Close() error
}

// earliest and latest bound the times that can be stored as nanoseconds since the epoch.
var (
	earliest = time.Unix(0, 0)
	latest   = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
)

func checkTime(what string, t time.Time) error {
	if t.Before(earliest) || t.After(latest) {
		return fmt.Errorf("%s %s lies outside of 1970 to 2262: %w", what, t.Format(time.RFC3339), ErrInvalid)
	}
	return nil
}

// checkMaybe is checkTime for a time that may be missing.
func checkMaybe(what string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	return checkTime(what, t)
}

// checkText returns ErrTooLarge or ErrInvalid for a text that cannot be stored. The error has no part of the text,
// which may be a secret.
func checkText(what, text string, most int) error {
	if len(text) > most {
		return fmt.Errorf("%s of %d bytes, at most %d: %w", what, len(text), most, ErrTooLarge)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s is not UTF-8, or has a zero byte: %w", what, ErrInvalid)
	}
	return nil
}

// CheckBatch returns ErrTooLarge for a batch of more than MaxBatch entries, and otherwise the mistake of the first
// entry that has one. Stores call it before anything else.
func CheckBatch[T interface{ Validate() error }](batch []T) error {
	if len(batch) > MaxBatch {
		return fmt.Errorf("a batch of %d entries, at most %d: %w", len(batch), MaxBatch, ErrTooLarge)
	}
	for _, one := range batch {
		if err := one.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// What may be wrong. The errors that stores return wrap these and say more: which file, and what the machine said.
var (
	// ErrNotFound: there is nothing by that key.
	ErrNotFound = errors.New("there is no such entry")
	// ErrExists: there is something by that key already.
	ErrExists = errors.New("the entry exists already")
	// ErrClosed: the store was closed before.
	ErrClosed = errors.New("the store is closed")
	// ErrCorrupt: what is stored cannot be read back.
	ErrCorrupt = errors.New("what is stored is damaged")
	// ErrNewer: a newer weir has written it, and this one does not know how to read it.
	ErrNewer = errors.New("a newer weir has written what is stored")
	// ErrInUse: another weir has it open.
	ErrInUse = errors.New("in use by another weir")
	// ErrUnwritable: weir may not write there, or there is nowhere to write.
	ErrUnwritable = errors.New("cannot be written")
	// ErrFull: there is no space for more. What is stored is intact. Removals make space.
	ErrFull = errors.New("no room to store more")
	// ErrBusy: another program holds what is stored for longer than a write may wait.
	ErrBusy = errors.New("another program keeps the store locked")
	// ErrTooMany: as many writes as may wait are waiting. The write was not begun.
	ErrTooMany = errors.New("too many writes are waiting")
	// ErrCrowded: as many entries of a kind are kept as may be. Others can still be stored.
	ErrCrowded = errors.New("no more can be kept")
	// ErrTooLarge: a value or a batch is over its bound.
	ErrTooLarge = errors.New("too large to store")
	// ErrInvalid: a value makes no sense.
	ErrInvalid = errors.New("makes no sense to store")
)
