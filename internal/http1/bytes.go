package http1

import (
	"net/textproto"
	"strings"
)

// How far the reading of a name has come. Up to inPlain it is canonical.
const (
	atWord  = iota // a word begins: its first letter should be a capital
	inPlain        // within a word
	atOther        // the same, in a name that is not canonical
	inOther
	atEnd // a byte that is not one of a token (RFC 9110, 5.6.2)
)

// steps says where a byte leads.
var steps = func() (to [atEnd][256]uint8) {
	for c := range 256 {
		small, capital := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z'
		digit := c >= '0' && c <= '9'
		for from := range to {
			next := uint8(inPlain)
			switch {
			case !small && !capital && !digit && (c >= 128 || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) < 0):
				to[from][c] = atEnd
				continue
			case c == '-':
				next = atWord
			}
			if from >= atOther || from == atWord && small || from == inPlain && capital {
				next += atOther
			}
			to[from][c] = next
		}
	}
	return to
}()

// IsToken reports whether s is a token, as methods and names of fields are.
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if steps[atWord][s[i]] == atEnd {
			return false
		}
	}
	return len(s) > 0
}

// nameEnd returns the length of the name that a line begins with, and whether it is canonical.
func nameEnd(line []byte) (n int, canonical bool) {
	at := uint8(atWord)
	row := &steps[at]
	for i, c := range line {
		next := row[c]
		if next == atEnd {
			return i, at <= inPlain
		}
		at, row = next, &steps[next%atEnd]
	}
	return len(line), at <= inPlain
}

// IsValue reports whether s has no control characters other than tabs.
func IsValue[T string | []byte](s T) bool {
	if len(s) < 8 {
		return plain(s)
	}
	for i := 0; i+8 < len(s); i += 8 {
		if controls(word(s, i)) != 0 && !plain(s[i:i+8]) {
			return false
		}
	}
	last := len(s) - 8
	return controls(word(s, last)) == 0 || plain(s[last:])
}

func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isTarget reports whether s can be the target of a request: it has neither spaces nor control characters.
func isTarget[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return len(s) > 0
}

// word is the eight bytes from i on.
func word[T string | []byte](s T, i int) uint64 {
	return uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
		uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
}

const (
	ones = 0x0101010101010101
	high = 0x8080808080808080
)

// controls is not 0 if one of eight bytes is below a space, or 0x7f. It may also be not 0 for bytes behind such a one.
func controls(w uint64) uint64 {
	below := (w - ones*' ') &^ w
	del := w ^ ones*0x7f
	return (below | (del-ones)&^del) & high
}

// common are names that are not allocated for each message.
var common = func() map[string]string {
	m := map[string]string{}
	for name := range strings.FieldsSeq("Accept-Ranges Age Allow Alt-Svc Cache-Control Connection " +
		"Content-Disposition Content-Encoding Content-Language Content-Length Content-Location Content-Range " +
		"Content-Security-Policy Content-Type Date Etag Expires Keep-Alive Last-Modified Link Location Pragma " +
		"Retry-After Server Set-Cookie Strict-Transport-Security Trailer Transfer-Encoding Upgrade Vary Via " +
		"Www-Authenticate X-Content-Type-Options X-Frame-Options X-Powered-By X-Request-Id X-Xss-Protection " +
		"Access-Control-Allow-Origin Access-Control-Allow-Headers Access-Control-Allow-Methods Referrer-Policy " +
		"Accept Accept-Encoding Accept-Language Authorization Cookie Host Origin Referer User-Agent X-Api-Key " +
		"Sec-Fetch-Dest Sec-Fetch-Mode Sec-Fetch-Site Sec-Fetch-User X-Forwarded-For X-Forwarded-Proto " +
		"X-Forwarded-Host If-None-Match If-Modified-Since Traceparent Tracestate Dnt Priority Range") {
		m[strings.ToLower(name)] = name
	}
	m["ETag"] = "Etag"
	return m
}()

// Canonical returns a name as an http.Header has it.
func Canonical(name string) string {
	if known, ok := common[name]; ok {
		return known
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// HasWord reports whether a list, without blanks around it, has a word, in any case.
func HasWord(list, word string) bool {
	if list == word {
		return true
	}
	if strings.IndexByte(list, ',') < 0 {
		return len(list) == len(word) && strings.EqualFold(list, word)
	}
	for part := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(part, " \t"), word) {
			return true
		}
	}
	return false
}
