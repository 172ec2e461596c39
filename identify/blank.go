package identify

import (
	"errors"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Errors of CheckTarget and CheckField.
var (
	ErrBlankEnds = errors.New("the path, or a name or value in the request, begins or ends with a character that some " +
		"servers take for a space: leave it out, or escape it as %XX")
	ErrOverrideSpelling = errors.New("the name of a header is spelled so that some servers take it for one that " +
		"overrides the method, and others do not: write it as it is")
)

// IsBlank reports whether some servers trim a character away.
func IsBlank(r rune) bool {
	return unicode.IsSpace(r) || r >= '\u200b' && r <= '\u200d' || r == '\u180e' || r == '\u2060' || r == '\ufeff'
}

// lastBlank returns the size of the blank that s ends with, or 0. A byte that is a space in Latin-1 is one, too, where
// it belongs to no character of UTF-8: many servers read names and values as Latin-1.
func lastBlank(s string) int {
	r, size := utf8.DecodeLastRuneInString(s)
	return sizeOfBlank(r, size, s[max(0, len(s)-1):])
}

func firstBlank(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	return sizeOfBlank(r, size, s)
}

func sizeOfBlank(r rune, size int, at string) int {
	if IsBlank(r) || r == utf8.RuneError && size == 1 && (at[0] == 0x85 || at[0] == 0xa0) {
		return size
	}
	return 0
}

// trimBlanks cuts off what some servers trim away at both ends.
func trimBlanks(s string) string {
	for size := lastBlank(s); size > 0; size = lastBlank(s) {
		s = s[:len(s)-size]
	}
	for size := firstBlank(s); size > 0; size = firstBlank(s) {
		s = s[size:]
	}
	return s
}

// hasBlank reports whether there is a blank anywhere in s.
func hasBlank(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c > ' ' && c < utf8.RuneSelf {
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if sizeOfBlank(r, size, s[i:]) > 0 {
			return true
		}
		i += size - 1
	}
	return false
}

// blankEnds reports whether a text begins or ends with a blank other than a plain space. That is the common case, and
// every server trims those.
func blankEnds(s string) bool {
	s = strings.Trim(s, " \t")
	return s != "" && (s[0] >= utf8.RuneSelf && firstBlank(s) > 0 || s[len(s)-1] >= utf8.RuneSelf && lastBlank(s) > 0)
}

// isASCII reports whether s has nothing else.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// CheckTarget returns ErrBlankEnds for a path, escaped as it came, or a query that servers read differently because of
// a blank that is not escaped: some split the line of a request there, and some do not. An escaped one makes another
// reading of a path; see Route.
func CheckTarget(escaped, query string) error {
	if blankEnds(escaped) {
		return ErrBlankEnds
	}
	if isASCII(query) {
		return nil
	}
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		if name, value, _ := strings.Cut(pair, "="); blankEnds(name) || blankEnds(value) {
			return ErrBlankEnds
		}
	}
	return nil
}

// CheckField returns ErrBlankEnds for a header field that servers read differently because its value, or the name of a
// cookie in it, begins or ends with a blank. The value of a cookie matters only where an account is named by it, which
// Account checks: sites set cookies of any text, and browsers send them for years.
func CheckField(name, value string) error {
	if name != "Cookie" {
		if blankEnds(value) {
			return ErrBlankEnds
		}
		return nil
	}
	if isASCII(value) {
		return nil
	}
	for pair := range strings.SplitSeq(value, ";") {
		if key, _, _ := strings.Cut(pair, "="); blankEnds(key) {
			return ErrBlankEnds
		}
	}
	return nil
}

// checkHeader is CheckField for all of a header whose look-alikes the caller cannot leave out.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if OverridesByAnotherName(name) {
			return ErrOverrideSpelling
		}
		for _, value := range values {
			if err := CheckField(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// OverridesMethod reports whether some servers take a header for one that overrides the method.
func OverridesMethod(name string) bool {
	if len(name) == 0 || lower(name[0]) != 'x' {
		return false
	}
	for _, override := range methodHeaders {
		if Alike(override, name) {
			return true
		}
	}
	return false
}

// OverridesByAnotherName reports whether only some servers take a header for one that overrides the method: it has
// other signs in its name. Route does not look at such a header, so that it must not reach a server.
func OverridesByAnotherName(name string) bool {
	if !OverridesMethod(name) {
		return false
	}
	for _, override := range methodHeaders {
		if strings.EqualFold(override, name) {
			return false
		}
	}
	return true
}
