package http1

import (
	"encoding/binary"
	"net/textproto"
	"strings"
)

// What a byte of a token is (RFC 9110, 5.6.2).
const (
	noToken = iota
	lower
	upper
	dash
	sign // a digit, or another byte of a token
)

var tokenBytes = func() (kinds [256]uint8) {
	for c := range 256 {
		switch {
		case c >= 'a' && c <= 'z':
			kinds[c] = lower
		case c >= 'A' && c <= 'Z':
			kinds[c] = upper
		case c == '-':
			kinds[c] = dash
		case c >= '0' && c <= '9' || c < 128 && strings.IndexByte("!#$%&'*+.^_`|~", byte(c)) >= 0:
			kinds[c] = sign
		}
	}
	return kinds
}()

// IsToken reports whether s is a token, as methods and names of fields are.
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if tokenBytes[s[i]] == noToken {
			return false
		}
	}
	return len(s) > 0
}

// nameEnd returns the length of the name that a line begins with, and whether it is canonical.
func nameEnd(line []byte) (n int, canonical bool) {
	canonical = true
	wrong := uint8(lower) // what is not canonical at the beginning of a word
	for ; n < len(line); n++ {
		kind := tokenBytes[line[n]]
		if kind == noToken {
			break
		}
		if kind == wrong {
			canonical = false
		}
		if wrong = upper; kind == dash {
			wrong = lower
		}
	}
	return n, canonical
}

// IsValue reports whether s has no control characters other than tabs.
func IsValue[T string | []byte](s T) bool {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if controls(word(s[i:])) != 0 && !plain(s[i:i+8]) {
			return false
		}
	}
	return plain(s[i:])
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

func word[T string | []byte](s T) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.LittleEndian.Uint64(b[:])
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
