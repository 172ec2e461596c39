package http1

import (
	"bytes"
	"errors"
	"strings"
)

// A Mistake says what is wrong with a message.
type Mistake string

func (m Mistake) Error() string { return string(m) }

// Errors of Head.Read, and of Chunks.Next.
var (
	ErrTooLarge = errors.New("request line and headers are too large")
	ErrTrailers = errors.New("trailers are too large")
	ErrPreface  = errors.New("HTTP/2 begins here")
)

// A Kind is that of a message.
type Kind uint8

// Messages have two kinds.
const (
	Request Kind = iota
	Answer
)

// A Head is the beginning of a message: its first line and its fields.
type Head struct {
	Fields Fields // without Host and Transfer-Encoding
	lines  []line
	found
}

// found is what else a head says.
type found struct {
	Method, Target string // of a request
	Status         int    // of an answer
	Reason         string // with the status: 200 OK

	Minor   int // of HTTP/1.x
	Host    string
	Length  int64 // as Content-Length says; -1 without one
	Chunked bool

	Close, KeepAlive, Upgrade bool // Connection says so

	kind  Kind
	hosts int
	start int // where the first line begins: empty lines may come before a request
	next  int // where the line begins that is not complete
	seen  int // how far line ends have been looked for
	parts [2]int
}

// A line is where a field is, in the bytes of the head.
type line struct {
	name, colon uint32 // begin and end of the name
	from, to    uint32 // of the value
	canonical   bool   // the name
	exact       bool   // all of it is as AppendField would write it
}

// Bounds of a head and of its fields.
type Bounds struct {
	Bytes  int
	Fields int
}

// Begin makes ready to read a head. Memory of one before is used again.
func (h *Head) Begin(kind Kind) {
	h.Fields.Reset()
	h.lines = h.lines[:0]
	h.found = found{}
	h.Length, h.kind = -1, kind
}

// Begun reports whether a part of the first line has been read.
func (h *Head) Begun() bool { return h.next > h.start || h.seen > h.next }

// Read reads a head. b has all that has come since Begin; when more comes it is called again. It returns the length of
// the head with the empty line that ends it, or 0 as long as that is missing. Every line is checked when it ends, so
// that a mistake is found without waiting for the rest.
func (h *Head) Read(b []byte, most Bounds) (int, error) {
	for {
		i := bytes.IndexByte(b[h.seen:], '\n')
		if i < 0 {
			if h.seen = len(b); h.seen >= most.Bytes {
				return 0, ErrTooLarge
			}
			return 0, nil
		}
		end := h.seen + i
		if end >= most.Bytes {
			return 0, ErrTooLarge
		}
		if end == h.next || b[end-1] != '\r' {
			return 0, Mistake("a line ends with a bare LF")
		}
		begin, text := h.next, b[h.next:end-1]
		h.seen, h.next = end+1, end+1
		var err error
		switch {
		case begin == h.start && len(text) == 0 && h.kind == Request:
			h.start = h.next // RFC 9112, section 2.2: some clients send one behind a body
		case begin == h.start:
			err = h.first(text)
		case len(text) == 0:
			if err := h.finish(string(b[h.start:h.next])); err != nil {
				return 0, err
			}
			return h.next, nil
		case len(h.lines) == most.Fields:
			err = ErrTooLarge
		default:
			err = h.field(text, begin-h.start)
		}
		if err != nil {
			return 0, err
		}
	}
}

func (h *Head) first(text []byte) error {
	if h.kind == Answer {
		return h.statusLine(text)
	}
	return h.requestLine(text)
}

// requestLine reads the first line of a request (RFC 9112, 3): three parts with one space between them.
func (h *Head) requestLine(text []byte) error {
	if string(text) == "PRI * HTTP/2.0" {
		return ErrPreface
	}
	method, _ := nameEnd(text)
	if method == 0 || method == len(text) || text[method] != ' ' {
		return Mistake("malformed request line")
	}
	end := bytes.LastIndexByte(text, ' ')
	if end <= method+1 {
		return Mistake("malformed request line")
	}
	if !isTarget(text[method+1 : end]) {
		if bytes.IndexByte(text[method+1:end], ' ') >= 0 {
			return Mistake("malformed HTTP version")
		}
		return Mistake("control character in the request target")
	}
	switch string(text[end+1:]) {
	case "HTTP/1.1":
		h.Minor = 1
	case "HTTP/1.0":
	default:
		return Mistake("malformed HTTP version")
	}
	h.parts = [2]int{method, end}
	return nil
}

func (h *Head) statusLine(text []byte) error {
	const version = len("HTTP/1.x")
	switch {
	case bytes.HasPrefix(text, []byte("HTTP/1.1")) && (len(text) == version || text[version] == ' '):
		h.Minor = 1
	case bytes.HasPrefix(text, []byte("HTTP/1.0")) && (len(text) == version || text[version] == ' '):
	default:
		return Mistake("the answer is not HTTP/1")
	}
	rest := text[min(version+1, len(text)):]
	if len(rest) < 3 || len(rest) > 3 && rest[3] != ' ' || rest[0] < '1' || rest[0] > '9' || rest[1] < '0' ||
		rest[1] > '9' || rest[2] < '0' || rest[2] > '9' || !IsValue(rest) {
		return Mistake("malformed status line")
	}
	h.Status = int(rest[0]-'0')*100 + int(rest[1]-'0')*10 + int(rest[2]-'0')
	h.parts = [2]int{version + 1, len(text)}
	return nil
}

// field checks a line and notes where its parts are.
func (h *Head) field(text []byte, at int) error {
	if text[0] == ' ' || text[0] == '\t' {
		return Mistake("folded header line")
	}
	colon, canonical := nameEnd(text)
	if colon == 0 || colon == len(text) || text[colon] != ':' {
		return Mistake("malformed header name")
	}
	from, to := colon+1, len(text)
	for from < to && (text[from] == ' ' || text[from] == '\t') {
		from++
	}
	for from < to && (text[to-1] == ' ' || text[to-1] == '\t') {
		to--
	}
	if !IsValue(text[from:to]) {
		return Mistake("control character in a header")
	}
	exact := canonical && from == colon+2 && text[colon+1] == ' ' && to == len(text)
	h.lines = append(h.lines, line{name: uint32(at), colon: uint32(at + colon), from: uint32(at + from),
		to: uint32(at + to), canonical: canonical, exact: exact})
	return nil
}

// finish makes strings of what has been found, all in one piece of memory, and decides on the framing of the body.
func (h *Head) finish(text string) error {
	if h.kind == Answer {
		h.Reason = text[h.parts[0]:h.parts[1]]
	} else {
		h.Method, h.Target = text[:h.parts[0]], text[h.parts[0]+1:h.parts[1]]
	}
	codings := 0
	h.Fields.text = text
	h.Fields.grow(len(h.lines))
	for i := range h.lines {
		l := &h.lines[i]
		name, value := text[l.name:l.colon], text[l.from:l.to]
		if !l.canonical {
			name = Canonical(name)
		}
		switch name {
		case "Host":
			if h.kind == Request {
				h.Host = value
				h.hosts++
				continue
			}
		case "Content-Length":
			n, ok := length(value)
			if !ok {
				return Mistake("malformed Content-Length")
			}
			if h.Length >= 0 {
				if h.kind == Request || h.Length != n {
					return Mistake("more than one Content-Length")
				}
				continue
			}
			h.Length = n
		case "Transfer-Encoding":
			if codings++; codings > 1 && h.kind == Request {
				return Mistake("more than one Transfer-Encoding")
			}
			if codings > 1 || !strings.EqualFold(value, "chunked") {
				return Mistake("a Transfer-Encoding other than chunked")
			}
			h.Chunked = true
			continue // it is about this connection only
		case "Connection":
			h.Close = h.Close || HasWord(value, "close")
			h.KeepAlive = h.KeepAlive || HasWord(value, "keep-alive")
			h.Upgrade = h.Upgrade || HasWord(value, "upgrade")
		}
		var whole span
		if l.exact {
			whole = span{l.name, l.to + uint32(len("\r\n"))}
		}
		h.Fields.add(name, value, whole)
	}
	if h.Chunked && h.Minor == 0 {
		return Mistake("Transfer-Encoding in HTTP/1.0")
	}
	if h.Chunked && h.Length >= 0 {
		return Mistake("both Content-Length and Transfer-Encoding")
	}
	return nil
}

// Hosts returns how many Host fields a request has.
func (h *Head) Hosts() int { return h.hosts }

// maxLengthDigits keeps lengths within 63 bits.
const maxLengthDigits = 18

func length(s string) (n int64, ok bool) {
	if len(s) == 0 || len(s) > maxLengthDigits {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}
