// Package login keeps passwords: it hashes them, and verifies them without becoming the bottleneck.
//
// Hash makes of a password what is stored; a Desk verifies. A hash is slow and takes 19 MiB on purpose, so a Desk
// works on a few at once, lets some wait, turns the others away (ErrBusy), and remembers for a while what was right. A
// Guard limits wrong passwords: by throttles that are charged before a password is verified, so that many guesses at
// once are no more than one after the other.
package login

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Errors of Verify.
var (
	ErrWrong = errors.New("login: wrong name or password")
	ErrBusy  = errors.New("login: too many log-ins at once")
	// the operator's trouble, not the user's
	ErrStored = errors.New("login: what is stored is no password that this program reads")
)

// Errors of Check and Hash.
var (
	ErrShort = errors.New("login: a password has at least 8 characters")
	ErrLong  = errors.New("login: a password has at most 1024 bytes")
	ErrChars = errors.New("login: a password is text in UTF-8 without a NUL")
)

// Bounds of passwords and names.
const (
	MinPassword = 8    // characters
	MaxPassword = 1024 // bytes
	MaxName     = 1024 // bytes
)

// Check says whether a password that somebody sets is one: ErrShort, ErrLong, ErrChars or nil.
func Check(password string) error {
	switch {
	case len(password) > MaxPassword:
		return ErrLong
	case !utf8.ValidString(password) || strings.ContainsRune(password, 0): // AUTH PLAIN separates with NUL
		return ErrChars
	case utf8.RuneCountInString(password) < MinPassword:
		return ErrShort
	}
	return nil
}
