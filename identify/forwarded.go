package identify

import (
	"strings"
	"unicode/utf8"
)

// lastElement splits the right-most element off a line of a Forwarded header (RFC 7239, 4). It reads from the right, so
// that a quote that a client left open does not swallow what the proxy appended. A comma within quotes does not
// separate elements. If a quote is not closed, the element is the whole line, which is malformed.
func lastElement(line string) (before, element string, more bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch {
		case line[i] == '"' && (!quoted || !escaped(line[:i])):
			quoted = !quoted
		case line[i] == ',' && !quoted:
			return line[:i], line[i+1:], true
		}
	}
	return "", line, false
}

// escaped reports whether s ends in a backslash that escapes what follows. Two of them are one escaped backslash.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// element7239 reads the element that s starts with: its "for", "" for none, and what follows, a comma and more.
func element7239(s string) (node, rest string, ok bool) {
	rest = strings.TrimLeft(s, " \t")
	seen := false
	for rest != "" && rest[0] != ',' {
		name := token(rest)
		if name == "" || len(rest) <= len(name) || rest[len(name)] != '=' {
			return "", rest, false
		}
		var value string
		if value, rest, ok = value7239(rest[len(name)+1:]); !ok {
			return "", rest, false
		}
		if strings.EqualFold(name, "for") {
			if seen {
				return "", rest, false
			}
			node, seen = value, true
		}
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" || rest[0] == ',' {
			break
		}
		if rest[0] != ';' {
			return "", rest, false
		}
		rest = strings.TrimLeft(rest[1:], " \t")
	}
	return node, rest, true
}

// WellForwarded reports whether lines of a Forwarded header keep to the grammar: servers read others differently.
func WellForwarded(lines []string) bool {
	for _, rest := range lines {
		for more := true; more; {
			var ok bool
			if _, rest, ok = element7239(rest); !ok {
				return false
			}
			if more = rest != ""; more {
				rest = rest[1:]
			}
		}
	}
	return true
}

// value7239 reads a token or a quoted string and returns what follows it.
func value7239(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		value = token(s)
		// Many proxies write addresses with colons without quotes.
		for len(value) < len(s) && strings.IndexByte(":[]", s[len(value)]) >= 0 {
			value = s[:len(value)+1+len(token(s[len(value)+1:]))]
		}
		return value, s[len(value):], value != ""
	}
	escaped := false
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			escaped = true
			i++
		case s[i] == '"':
			if escaped {
				// An address never has a backslash.
				return "\\", s[i+1:], true
			}
			return s[1:i], s[i+1:], true
		}
	}
	return "", "", false
}

// token returns the token (RFC 9110, 5.6.2) that s starts with.
func token(s string) string {
	i := 0
	for i < len(s) && tokenBytes[s[i]] {
		i++
	}
	return s[:i]
}

// IsToken reports whether s is a token (RFC 9110, 5.6.2), as methods and names of headers are.
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return len(s) > 0
}

var tokenBytes = func() (is [256]bool) {
	for c := range byte(utf8.RuneSelf) {
		is[c] = isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
	}
	return is
}()
