package weir

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Mistakes collects mistakes in options, as FieldErrors. The zero value has none. A value that was left out ("", 0) is
// no mistake for OneOf, Count, Size, Timeout, Within, Lasts and Between: it has a default.
type Mistakes []error

// Add notes a mistake.
func (m *Mistakes) Add(path, msg, hint string) {
	*m = append(*m, &FieldError{Path: path, Msg: msg, Hint: hint})
}

// Under notes the mistakes in options inside others, below a path.
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
	m.Add(path, fmt.Sprintf("unknown %s %.64q", path[strings.LastIndex(path, ".")+1:], got), Suggest(got, known...))
}

// Count wants a number to be positive and not over the most.
func (m *Mistakes) Count(path string, got, most int) { Between(m, path, got, 1, most) }

// Size wants a size to lie between two others.
func (m *Mistakes) Size(path string, got, least, most Size) { Between(m, path, got, least, most) }

// Timeout wants a duration not to be negative.
func (m *Mistakes) Timeout(path string, got Duration) {
	if got < 0 {
		m.Add(path, "a timeout cannot be negative", "leave it out for the default")
	}
}

// Seconds wants a timeout of a second or more.
func (m *Mistakes) Seconds(path string, got Duration) {
	if m.Timeout(path, got); got > 0 && got < Duration(time.Second) {
		m.Add(path, fmt.Sprintf("%s is too short", got), "write 1s or more, or leave it out for the default")
	}
}

// Within wants a number to lie between two others.
func (m *Mistakes) Within(path string, got, least, most int64) {
	bound(m, path, got, least, most, "%v to %v")
}

// Lasts wants a duration to lie between two others.
func (m *Mistakes) Lasts(path string, got Duration, least, most time.Duration) {
	bound(m, path, got, Duration(least), Duration(most), "%v to %v")
}

// Between wants a value to lie between two others, unless it was left out.
func Between[T cmp.Ordered](m *Mistakes, path string, got, least, most T) {
	bound(m, path, got, least, most, "between %v and %v")
}

func bound[T cmp.Ordered](m *Mistakes, path string, got, least, most T, hint string) {
	var none T
	if got != none && !(got >= least && got <= most) { // what is not a number is wrong, too
		m.Add(path, fmt.Sprintf("%v is out of bounds", got), fmt.Sprintf(hint, least, most))
	}
}

// AtMost wants a list of what not to be longer than most, and reports whether it is not.
func (m *Mistakes) AtMost(path, what string, n, most int) bool {
	if n > most {
		m.Add(path, strings.TrimSpace(fmt.Sprintf("%d %s", n, what))+" are too many", fmt.Sprintf("at most %d", most))
	}
	return n <= most
}

// Networks wants networks to be valid.
func (m *Mistakes) Networks(path string, networks []netip.Prefix) {
	for i, p := range networks {
		if !p.IsValid() {
			m.Add(fmt.Sprintf("%s[%d]", path, i), "not a network", "write 192.0.2.0/24 or 2001:db8::/32")
		}
	}
}

// Err returns the mistakes joined, or nil when there are none.
func (m Mistakes) Err() error { return errors.Join(m...) }
