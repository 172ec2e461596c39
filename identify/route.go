package identify

import (
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Host returns a host in the form of rules: lower case, without port, brackets and the dot at the end.
func Host(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Path returns a path in the form of rules, so that // and /./ cannot avoid one. The upstream gets the path as it came.
func Path(p string) string {
	if p == "" {
		return "/"
	}
	if p[0] != '/' {
		p = "/" + p
	}
	return path.Clean(p)
}

// Escaped returns the path of a URL as it was written. net/url escapes a whole path anew if one byte of it could have
// been escaped, and an escaped slash becomes a plain one.
func Escaped(u *url.URL) string {
	if u.RawPath != "" {
		if path, err := url.PathUnescape(u.RawPath); err == nil && path == u.Path {
			return u.RawPath
		}
	}
	return u.EscapedPath()
}

// Straight reports whether all servers read a path, escaped as it came, in the same way: it has no dot segments, double
// slashes, backslashes or semicolons, no names that end in dots or spaces, no spaces beyond ASCII, and no escapes that
// hide them. For limits, Route returns what servers may read in any other path. Such a path exempts no client: for
// "/search/../healthz" some upstreams run a search.
func Straight(escaped string) bool {
	if escaped == "" || escaped[0] != '/' {
		return false
	}
	var last, before byte // what came before, decoded
	var tail [utf8.UTFMax]byte
	for i := 0; i < len(escaped); i++ {
		c := escaped[i]
		if plain[c] {
			before, last = last, c
			continue
		}
		if c == '%' {
			decoded, ok := fromEscape(escaped[i:])
			if !ok || strings.IndexByte("/.%", decoded) >= 0 {
				return false
			}
			c = decoded
			i += 2
		}
		switch {
		case c == '/' && (last == '/' || last == '.' || last == ' '):
			return false
		case c == '.' && last == '.' && before == '/':
			return false
		case c < ' ', c == 0x7f, c == '\\', c == ';', c == '?', c == '#':
			return false
		case c >= 0x80 && c < 0xc0 &&
			(last == 0xc0 || last == 0xc1 || last == 0xe0 && c < 0xa0 || last == 0xf0 && c < 0x90):
			return false // UTF-8 that is longer than it must be
		}
		if c >= utf8.RuneSelf {
			if last < utf8.RuneSelf {
				tail = [utf8.UTFMax]byte{}
			}
			if tail = [utf8.UTFMax]byte{tail[1], tail[2], tail[3], c}; blankTail(tail[:]) {
				return false
			}
		}
		before, last = last, c
	}
	return last != '.' && last != ' '
}

// blankTail reports whether the last bytes of a text are a blank, or may be.
func blankTail(tail []byte) bool {
	r, size := utf8.DecodeLastRune(tail)
	return IsBlank(r) || size == 1 && (tail[len(tail)-1] == 0x85 || tail[len(tail)-1] == 0xa0)
}

// plain are the bytes that have no special meaning in a path, whatever is around them.
var plain = func() (is [256]bool) {
	for c := range byte(0x80) {
		is[c] = c > ' ' && c != 0x7f && strings.IndexByte(special, c) < 0
	}
	return is
}()

// queryValue returns the value of a parameter. Some servers split pairs at semicolons, some read key[] as key, and some
// ignore case or the difference between signs. So a value counts only if all of them read the same one: it has the name
// itself, and all other parameters that they may take for it have the same value.
func queryValue(query, name string) (value string, err error) {
	found, exact := false, false
	fragment := strings.IndexByte(query, '#') >= 0 // for some servers the query ends there
	for query != "" {
		var whole string
		whole, query, _ = strings.Cut(query, "&")
		for rest, parts := whole, 0; rest != "" || parts == 0; parts++ {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			key, text, _ := strings.Cut(pair, "=")
			if !sameParameter(key, name) {
				continue
			}
			if len(pair) < len(whole) || fragment {
				return "", ErrAccountWritten
			}
			if text, err = parameter(text); err != nil {
				return "", err
			}
			if found && text != value {
				return "", ErrAccountTwice
			}
			value, found = text, true
			exact = exact || key == name || !plainKey(name) && decode(strings.ReplaceAll(key, "+", " "), "") == name
		}
	}
	if found && !exact {
		return "", ErrAccountSpelling
	}
	return value, nil
}

// plainKey reports whether no part of a name has to be escaped.
func plainKey(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || !tokenBytes[byte(r)] })
}

// parameter reads a value. Some servers read a plus sign as a space, and some unescape what was unescaped.
func parameter(text string) (string, error) {
	if strings.IndexByte(text, '+') >= 0 {
		return "", ErrAccountWritten
	}
	if strings.IndexByte(text, '%') >= 0 {
		plain, err := url.PathUnescape(text)
		if err != nil || strings.IndexByte(plain, '%') >= 0 && decode(plain, "") != plain {
			return "", ErrAccountWritten
		}
		text = plain
	}
	return strings.Trim(text, " \t"), nil
}

// sameParameter reports whether some server takes a raw key of a query for name.
func sameParameter(raw, name string) bool { return sameKey(unescape(raw), name) }

// sameKey reports whether some server takes a key for name: case, signs read as '_', and brackets do not matter.
func sameKey(key, name string) bool {
	if strings.IndexByte(name, '[') < 0 {
		key, _, _ = strings.Cut(key, "[")
	}
	key, _, _ = strings.Cut(key, "\x00")
	for trimmed := ""; trimmed != key; key = strings.Trim(trimBlanks(key), "+") {
		trimmed = key
	}
	if len(key) != len(name) {
		return false
	}
	for i := range len(key) {
		if keyByte(key[i]) != keyByte(name[i]) {
			return false
		}
	}
	return true
}

func keyByte(c byte) byte {
	switch c {
	case '.', ' ', '+', '_':
		return '_'
	}
	return lower(c)
}

// unescape decodes escapes until there are none, three times at most: some servers decode what they have decoded, and
// some also %uXXXX.
func unescape(s string) string {
	for range 3 {
		plain := decodeWide(decode(s, ""))
		if plain == s {
			break
		}
		s = plain
	}
	return s
}
