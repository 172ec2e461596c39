package weir

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mistakes collects those in options, as FieldErrors. The zero value has none. What was left out ("", 0) is never a
// mistake by OneOf, Count, Size and Timeout: it has a default.
type Mistakes []error

// Add notes a mistake.
func (m *Mistakes) Add(path, msg, hint string) {
	*m = append(*m, &FieldError{Path: path, Msg: msg, Hint: hint})
}

// Under notes the mistakes in options that stand inside others, below a path.
func (m *Mistakes) Under(path string, err error) {
	if err != nil {
		*m = append(*m, Under(path, err))
	}
}

// OneOf wants a word to be a known one.
func (m *Mistakes) OneOf(path, got string, known ...string) {
	if got == "" || slices.Contains(known, got) {
		return
	}
	hint := "one of " + strings.Join(known, ", ")
	if near := Nearest(got, known...); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	m.Add(path, fmt.Sprintf("unknown %s %q", path[strings.LastIndex(path, ".")+1:], got), hint)
}

// Count wants a number to be positive and not over the most.
func (m *Mistakes) Count(path string, got, most int) {
	if got < 0 || got > most {
		m.Add(path, fmt.Sprintf("%d is out of bounds", got), fmt.Sprintf("between 1 and %d", most))
	}
}

// Size wants a size to lie between two others.
func (m *Mistakes) Size(path string, got, least, most Size) {
	if got != 0 && (got < least || got > most) {
		m.Add(path, fmt.Sprintf("%s is out of bounds", got), fmt.Sprintf("between %s and %s", least, most))
	}
}

// Timeout wants a duration not to be negative.
func (m *Mistakes) Timeout(path string, got Duration) {
	if got < 0 {
		m.Add(path, "a timeout cannot be negative", "leave it out for the default")
	}
}

// Err returns the mistakes joined, or nil when there are none.
func (m Mistakes) Err() error { return errors.Join(m...) }
