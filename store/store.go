package store

import (
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
