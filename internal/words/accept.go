package words

import "strings"

// Bounds on what is read of an Accept-Language header. Browsers send a few ranges; what is beyond is ignored.
const (
	maxRanges = 16
	maxRange  = 64 // bytes, with its weight; a longer one is skipped
)

// Accepted returns the language that a browser prefers, by the values of its Accept-Language header (RFC 9110, 12.5.4).
// It is the other one where the browser names none that there is. It allocates nothing.
func Accepted(header []string, other *Language) *Language {
	best, weight, read := other, 0, 0
	for _, line := range header {
		for line != "" && weight < 1000 {
			if read++; read > maxRanges {
				return best
			}
			var element string
			element, line = cut(line, ',')
			if len(element) > maxRange {
				continue
			}
			name, params := cut(element, ';')
			q := weightOf(params)
			if q <= weight {
				continue // of two that are wanted alike, the first
			}
			if name = strings.TrimSpace(name); name == "*" {
				best, weight = other, q
			} else if l := match(name); l != nil {
				best, weight = l, q
			}
		}
	}
	return best
}

// cut is strings.Cut for one byte. Without it in the text, all of it is before.
func cut(text string, at byte) (before, after string) {
	if i := strings.IndexByte(text, at); i >= 0 {
		return text[:i], text[i+1:]
	}
	return text, ""
}

// match returns the language for a range: de for de and for de-AT, and pt-BR for pt if there is no pt.
func match(name string) (found *Language) {
	for _, l := range languages {
		switch {
		case strings.EqualFold(name, l.tag):
			return l
		case found == nil && (within(name, l.tag) || within(l.tag, name)):
			found = l
		}
	}
	return found
}

// within reports whether a tag is a narrower one than another: de-AT than de.
func within(tag, wide string) bool {
	return len(tag) > len(wide) && tag[len(wide)] == '-' && wide != "" && strings.EqualFold(tag[:len(wide)], wide)
}

// weightOf reads a weight, in thousandths (RFC 9110, 12.4.2). What is no weight is 0, so that the range is not taken.
func weightOf(params string) int {
	params = strings.TrimSpace(params)
	if params == "" {
		return 1000
	}
	if len(params) < 3 || len(params) > 7 || params[0]|0x20 != 'q' || params[1] != '=' {
		return 0
	}
	whole, digits := cut(params[2:], '.')
	if whole != "0" && whole != "1" || len(digits) > 3 {
		return 0
	}
	q := 1000 * int(whole[0]-'0')
	for i, unit := 0, 100; i < len(digits); i, unit = i+1, unit/10 {
		if digits[i] < '0' || digits[i] > '9' {
			return 0
		}
		q += unit * int(digits[i]-'0')
	}
	if q > 1000 {
		return 0
	}
	return q
}
