package identify

import (
	"net/url"
	"path"
	"strings"
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
