package httpgate

import (
	"bytes"
)

// requestLine checks the first line of a request (RFC 9112, 3): three parts with one space between them.
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

// trailer checks one line after the last chunk. Fields that frame or route a message may not be there (RFC 9110,
// 6.5.1).
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

// field splits a header line. The value comes without the white space around it.
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
var tokenBytes = byteSet("!#$%&'*+-.^_`|~")

// byteSet has letters, digits and others.
func byteSet(others string) (set [256]bool) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for _, c := range []byte(letters + others) {
		set[c] = true
	}
	return set
}

func isToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return len(s) > 0
}

// foldedEqual reports whether s is a word of ASCII, in any case.
func foldedEqual(s []byte, word string) bool {
	// Letters outside ASCII that fold to one inside are longer than it.
	return len(s) == len(word) && bytes.EqualFold(s, []byte(word))
}
