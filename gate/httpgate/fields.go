package httpgate

import (
	"bytes"
	"strings"
)

// requestLine judges the first line of a request (RFC 9112, 3): three parts with one space between them.
func requestLine(line []byte) (version11 bool, why string) {
	method, rest, ok1 := bytes.Cut(line, []byte(" "))
	target, version, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok1 || !ok2 || len(target) == 0 || !isToken(method) {
		return false, "malformed request line"
	}
	for _, c := range target {
		if c <= ' ' || c == 0x7f {
			return false, "control character in the request target"
		}
	}
	switch string(version) {
	case "HTTP/1.1":
		return true, ""
	case "HTTP/1.0":
		return false, ""
	}
	return false, "malformed HTTP version"
}

// trailer judges one line after the last chunk. What frames or routes a message has no place there (RFC 9110, 6.5.1).
func trailer(line []byte) (why string) {
	name, _, why := field(line)
	if why != "" {
		return why
	}
	for _, forbidden := range [...]string{"content-length", "transfer-encoding", "host", "trailer"} {
		if foldedEqual(name, forbidden) {
			return "a trailer that frames or routes the request"
		}
	}
	return ""
}

// field takes a header line apart; the value comes without the white space around it.
func field(line []byte) (name, value []byte, why string) {
	if line[0] == ' ' || line[0] == '\t' {
		return nil, nil, "folded header line"
	}
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found || !isToken(name) {
		return nil, nil, "malformed header name"
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, "control character in a header"
		}
	}
	return name, bytes.Trim(value, " \t"), ""
}

// tokenBytes are the bytes of a token (RFC 9110, 5.6.2).
var tokenBytes = func() (set [256]bool) {
	for c := range set {
		set[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return set
}()

func isToken(s []byte) bool {
	for _, c := range s {
		if !tokenBytes[c] {
			return false
		}
	}
	return len(s) > 0
}

// foldedEqual reports whether s is the lower-case ASCII word, in any case.
func foldedEqual(s []byte, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i, c := range s {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != word[i] {
			return false
		}
	}
	return true
}
