// Package login hashes passwords, and verifies them without becoming the bottleneck.
//
// Hash turns a password into what is stored, and a Verifier verifies it. A hash is slow and takes 19 MiB on purpose. So
// a Verifier works on a few at once, lets some wait, turns the others away (ErrBusy), and remembers right passwords for
// a while. A Guard limits wrong passwords by throttles that are charged before a password is verified. A Door has both,
// and knows from which networks users have logged in, so that nobody else keeps them out.
package login

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Errors of Verify.
var (
	ErrWrong = errors.New("login: wrong name or password")
	ErrBusy  = errors.New("login: too many logins at once")
	// ErrStored is for the operator to see to, not for the user.
	ErrStored = errors.New("login: the stored password cannot be read")
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

// Check returns ErrShort, ErrLong or ErrChars for a new password that is not allowed.
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
