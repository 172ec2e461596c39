package identify

import (
	"net/url"
	"strings"
	"unicode"
)

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
