package identify

import "strings"

// forwardedFor reads one line of a Forwarded header (RFC 7239, 4) and puts the "for" of its elements into last, element k at
// k modulo the length of last, so that the right-most ones are kept. An element without "for" counts, with an empty one. It
// reports how many elements there are, and whether the line keeps to the grammar.
func forwardedFor(line string, last *[maxHops]string) (n int, ok bool) {
	rest := line
	for {
		rest = strings.TrimLeft(rest, " \t")
		node, seen := "", false
		for rest != "" && rest[0] != ',' {
			name := token(rest)
			if name == "" || len(rest) <= len(name) || rest[len(name)] != '=' {
				return n, false
			}
			var value string
			if value, rest, ok = value7239(rest[len(name)+1:]); !ok {
				return n, false
			}
			if strings.EqualFold(name, "for") {
				if seen {
					return n, false
				}
				node, seen = value, true
			}
			rest = strings.TrimLeft(rest, " \t")
			if rest == "" || rest[0] == ',' {
				break
			}
			if rest[0] != ';' {
				return n, false
			}
			rest = strings.TrimLeft(rest[1:], " \t")
		}
		last[n%maxHops] = node
		n++
		if rest == "" {
			return n, true
		}
		rest = rest[1:]
	}
}

// value7239 reads a token or a quoted string and returns what follows it.
func value7239(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		value = token(s)
		// Many write addresses with colons without the quotes that they need.
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
				// No address needs a backslash; what has one is no address.
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
	for i < len(s) && isTokenByte(s[i]) {
		i++
	}
	return s[:i]
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
