package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"weir/identify"
)

// Bounds on what a server may say before a body, and after it.
const (
	maxHead    = 256 << 10
	maxFields  = 1000
	maxTrailer = 64 << 10
	maxEarly   = 100 // informational answers to one request
)

// errHeadTooLarge is for answers whose headers are beyond a bound.
var errHeadTooLarge = errors.New("the headers of the answer are too large")

// A malformedError says what is wrong with an answer.
type malformedError string

func (e malformedError) Error() string { return string(e) }

// A head is the beginning of an answer: status line and headers.
type head struct {
	status  int
	reason  string // with the status: 200 OK
	minor   int    // of HTTP/1.x
	header  http.Header
	length  int64 // of the body; -1 where it is not said
	chunked bool
	close   bool // the connection ends with this answer
	upgrade bool // Connection says so
}

// headEnd returns the length of a complete head in b, or 0. The first seen bytes were searched before.
func headEnd(b []byte, seen int) int {
	from := max(seen-3, 0)
	if i := bytes.Index(b[from:], []byte("\r\n\r\n")); i >= 0 {
		return from + i + 4
	}
	return 0
}

// bareLF reports whether a line in b ends without CR. The first seen bytes were searched before.
func bareLF(b []byte, seen int) bool {
	for i := seen; i < len(b); i++ {
		if b[i] == '\n' && (i == 0 || b[i-1] != '\r') {
			return true
		}
	}
	return false
}

// parseHead reads the head of an answer, which ends with an empty line. Lines end with CRLF and nothing else.
func parseHead(b []byte) (head, error) {
	text := string(b) // one piece of memory for all values
	line, rest, _ := strings.Cut(text, "\r\n")
	h := head{length: -1}
	if err := h.statusLine(line); err != nil {
		return h, err
	}
	n := strings.Count(rest, "\r\n") - 1
	if n > maxFields {
		return h, errHeadTooLarge
	}
	h.header = make(http.Header, n)
	values := make([]string, n) // one piece for all of them
	codings, keepAlive := 0, false
	for i := range n {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, err := parseField(line)
		if err != nil {
			return h, err
		}
		switch name {
		case "Content-Length":
			length, ok := parseLength(value)
			if !ok {
				return h, malformedError(fmt.Sprintf("malformed Content-Length %q", value))
			}
			if h.length >= 0 {
				if h.length != length {
					return h, malformedError("more than one Content-Length")
				}
				continue
			}
			h.length = length
		case "Transfer-Encoding":
			if codings++; codings > 1 || !strings.EqualFold(value, "chunked") {
				return h, malformedError("a Transfer-Encoding other than chunked")
			}
			h.chunked = true
			continue // it is about this connection only
		case "Connection":
			h.close = h.close || hasWord(value, "close")
			keepAlive = keepAlive || hasWord(value, "keep-alive")
			h.upgrade = h.upgrade || hasWord(value, "upgrade")
		}
		if known := h.header[name]; known != nil {
			h.header[name] = append(known, value)
			continue
		}
		values[i] = value
		h.header[name] = values[i : i+1 : i+1]
	}
	if h.chunked && h.length >= 0 {
		return h, malformedError("both Content-Length and Transfer-Encoding")
	}
	if h.minor == 0 {
		if h.chunked {
			return h, malformedError("Transfer-Encoding in HTTP/1.0")
		}
		h.close = h.close || !keepAlive
	}
	return h, nil
}

func (h *head) statusLine(line string) error {
	version, rest, _ := strings.Cut(line, " ")
	switch version {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		return malformedError("the answer is not HTTP/1")
	}
	if len(rest) < 3 || len(rest) > 3 && rest[3] != ' ' || rest[0] < '1' || rest[0] > '9' || rest[1] < '0' ||
		rest[1] > '9' || rest[2] < '0' || rest[2] > '9' || !isValue(rest) {
		return malformedError("malformed status line")
	}
	h.status = int(rest[0]-'0')*100 + int(rest[1]-'0')*10 + int(rest[2]-'0')
	h.reason = rest
	return nil
}

// parseField reads a line of a header. A line that continues the one before is an error.
func parseField(line string) (name, value string, err error) {
	colon := strings.IndexByte(line, ':')
	if colon < 0 || !identify.IsToken(line[:colon]) {
		return "", "", malformedError("malformed header line")
	}
	value = strings.Trim(line[colon+1:], " \t")
	if !isValue(value) {
		return "", "", malformedError("a header with control characters")
	}
	return canonical(line[:colon]), value, nil
}

// known are names of headers that are not allocated for each answer.
var known = func() map[string]string {
	m := map[string]string{}
	for name := range strings.FieldsSeq("Accept-Ranges Age Allow Alt-Svc Cache-Control Connection " +
		"Content-Disposition Content-Encoding " +
		"Content-Language Content-Length Content-Location Content-Range Content-Security-Policy Content-Type Date " +
		"Etag Expires Keep-Alive " +
		"Last-Modified Link Location Pragma Retry-After Server Set-Cookie Strict-Transport-Security Trailer " +
		"Transfer-Encoding Upgrade Vary Via " +
		"Www-Authenticate X-Content-Type-Options X-Frame-Options X-Powered-By X-Request-Id X-Xss-Protection " +
		"Access-Control-Allow-Origin Access-Control-Allow-Headers Access-Control-Allow-Methods Referrer-Policy") {
		m[name], m[strings.ToLower(name)] = name, name
	}
	m["ETag"] = "Etag"
	return m
}()

func canonical(name string) string {
	if k, ok := known[name]; ok {
		return k
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// maxLengthDigits keeps lengths within 63 bits.
const maxLengthDigits = 18

func parseLength(s string) (n int64, ok bool) {
	if len(s) > maxLengthDigits || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func hasWord(list, word string) bool {
	if strings.EqualFold(list, word) {
		return true
	}
	for part := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(part, " \t"), word) {
			return true
		}
	}
	return false
}
