package httpgate

import (
	"bytes"
	"strings"
)

// A framing checks the bytes that a client sends, so that no two servers can split them into different requests.
// net/http is more lenient than many servers: it takes a bare LF for a line end, unfolds folded lines, drops a
// Content-Length beside a Transfer-Encoding and accepts repeated lengths. A request that is smuggled through such a gap
// would pass no throttle.
//
// The bytes go on to net/http as they come, but a line end is kept back until the line has been checked. In place of
// the first bytes that are wrong, net/http gets bytes that it is sure to refuse, and nothing after them: requests
// before are answered in order, then comes 400, or 431 for a head above its bound, and the connection is closed.
//
// Bodies are counted, by Content-Length or chunk by chunk. Chunk extensions are left out.
type framing struct {
	bound int // on the bytes of a head, or of trailers

	state     framingState
	speaks    protocol
	first     bool   // no request has been seen on this connection
	size      int    // of the head so far
	line      []byte // the line so far, without its end
	sent      int    // how much of the line has gone on
	version11 bool   // the request is HTTP/1.1
	lengths   int    // Content-Length lines of this head
	codings   int    // Transfer-Encoding lines of this head
	left      int64  // bytes left of the body or chunk
	excess    int    // bytes of chunk extensions in this body
	why       string // what was wrong, once the state is broken or tooLarge
}

// A protocol is what may be spoken on a connection. TLS may have settled it.
type protocol uint8

const (
	either protocol = iota
	onlyHTTP1
	onlyHTTP2
)

type framingState uint8

const (
	inRequestLine framingState = iota
	inHeader
	inBody      // left bytes of it are to come
	inChunkSize // the line with the size of a chunk
	inChunk     // left bytes of it are to come
	inChunkEnd  // the line end after a chunk
	inTrailer
	raw      // HTTP/2, or an upgraded connection: not checked
	broken   // net/http has got, or will get, bytes that it refuses
	tooLarge // net/http gets more header until it refuses
)

// Bounds on chunk framing: a size line with its extensions, and all extensions of one body.
const (
	maxSizeLine     = 256
	maxExtensions   = 16 << 10
	maxSizeDigits   = 15
	maxLengthDigits = 18
)

// What net/http is sure to refuse: a header line without a colon, a malformed chunk size or chunk end. The line is
// longer than the preface of HTTP/2, which net/http waits for at the start of a connection.
const (
	badLine  = "\x00\r\n\r\n" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	badChunk = "\x00\x00\r\n"
)

func newFraming(bound int) framing { return framing{bound: bound, first: true} }

// counting reports how many of the next bytes are body and need no check.
func (f *framing) counting() int64 {
	if f.state == inBody || f.state == inChunk {
		return f.left
	}
	return 0
}

// counted notes that n bytes of body have been read.
func (f *framing) counted(n int) {
	if f.left -= int64(n); f.left > 0 {
		return
	}
	if f.state == inBody {
		f.startHead()
	} else {
		f.state, f.line, f.sent = inChunkEnd, f.line[:0], 0
	}
}

func (f *framing) startHead() {
	f.state, f.size, f.line, f.sent = inRequestLine, 0, f.line[:0], 0
	f.lengths, f.codings, f.excess, f.first = 0, 0, 0, false
}

// scan checks in, and appends to out what may go on.
func (f *framing) scan(in, out []byte) []byte {
	for len(in) > 0 {
		switch f.state {
		case raw:
			return append(out, in...)
		case broken, tooLarge:
			return out
		case inBody, inChunk:
			n := int(min(f.left, int64(len(in))))
			out, in = append(out, in[:n]...), in[n:]
			f.counted(n)
		default:
			end := bytes.IndexByte(in, '\n')
			piece := in
			if end >= 0 {
				piece = in[:end]
			}
			if !f.fits(len(piece) + 1) {
				return f.overflow(out)
			}
			f.line = append(f.line, piece...)
			if end < 0 {
				return f.pass(out)
			}
			in = in[end+1:]
			out = f.endLine(out)
		}
	}
	return out
}

// fits reports whether n more bytes, one of which may be a line end yet to come, stay within the bounds.
func (f *framing) fits(n int) bool {
	switch f.state {
	case inChunkSize, inChunkEnd:
		return len(f.line)+n <= maxSizeLine
	default:
		return f.size+len(f.line)+n <= f.bound
	}
}

func (f *framing) overflow(out []byte) []byte {
	switch f.state {
	case inRequestLine, inHeader:
		f.state, f.why = tooLarge, "request line and headers are too large"
		return out
	case inTrailer:
		return f.fail(out, "trailers are too large")
	default:
		return f.fail(out, "chunk size line is too long")
	}
}

// noPreface reports whether a client that settled on HTTP/2 sent something else. It is not answered, as it would
// misread an answer of HTTP/1 (RFC 9113, section 3.4).
func (f *framing) noPreface() bool {
	return f.speaks == onlyHTTP2 && (f.state == broken || f.state == tooLarge)
}

// pass lets the line so far go on, except for a CR at its end, which may belong to the line end. Lines of chunk framing
// are kept back whole, and so is the first one of HTTP/2.
func (f *framing) pass(out []byte) []byte {
	if f.state == inChunkSize || f.state == inChunkEnd || f.speaks == onlyHTTP2 {
		return out
	}
	end := len(f.line)
	if end > 0 && f.line[end-1] == '\r' {
		end--
	}
	if end > f.sent {
		out = append(out, f.line[f.sent:end]...)
		f.sent = end
	}
	return out
}

// fail replaces the rest of the line by bytes that net/http refuses.
func (f *framing) fail(out []byte, why string) []byte {
	switch f.state {
	case inChunkSize, inChunkEnd:
		out = append(out, badChunk...)
	default:
		if f.sent > 0 {
			out = append(out, "\r\n"...)
		}
		out = append(out, badLine...)
	}
	f.state, f.why = broken, why
	return out
}

// endLine checks a whole line and lets its end go on.
func (f *framing) endLine(out []byte) []byte {
	line, crlf := bytes.CutSuffix(f.line, []byte("\r"))
	if !crlf {
		return f.fail(out, "a line ends with a bare LF")
	}
	f.size += len(f.line) + 1
	var why string
	next := f.state
	switch f.state {
	case inRequestLine:
		if len(line) == 0 { // RFC 9112, section 2.2: some clients send one behind a body
			f.line = f.line[:0]
			return out
		}
		if f.first && f.speaks != onlyHTTP1 && string(line) == "PRI * HTTP/2.0" {
			next = raw
			break
		}
		if f.speaks == onlyHTTP2 {
			why = "HTTP/1 where HTTP/2 was settled"
			break
		}
		f.version11, why = requestLine(line)
		next = inHeader
	case inHeader:
		if len(line) == 0 {
			next, why = f.endHead()
			break
		}
		why = f.header(line)
	case inChunkSize:
		var digits int
		digits, why = f.chunkSize(line)
		if why == "" {
			out = append(append(out, line[:digits]...), "\r\n"...)
			f.line, f.sent = f.line[:0], 0
			if f.left > 0 {
				f.state = inChunk
			} else {
				f.state, f.size = inTrailer, 0
			}
			return out
		}
	case inChunkEnd:
		if len(line) > 0 {
			why = "a chunk is longer than its size"
		}
		next = inChunkSize
	case inTrailer:
		if len(line) == 0 {
			next = inRequestLine
			break
		}
		why = trailer(line)
	}
	if why != "" {
		return f.fail(out, why)
	}
	out = append(append(out, f.line[f.sent:]...), '\n')
	if f.state, f.line, f.sent = next, f.line[:0], 0; next == inRequestLine {
		f.startHead()
	}
	return out
}

// endHead decides how the body is framed.
func (f *framing) endHead() (next framingState, why string) {
	switch {
	case f.lengths > 0 && f.codings > 0:
		return 0, "both Content-Length and Transfer-Encoding"
	case f.codings > 0:
		f.excess = 0
		return inChunkSize, ""
	case f.lengths > 0 && f.left > 0:
		return inBody, ""
	default:
		return inRequestLine, ""
	}
}

// header checks one line of the head and notes what frames the body.
func (f *framing) header(line []byte) (why string) {
	name, value, why := field(line)
	if why != "" {
		return why
	}
	switch {
	case foldedEqual(name, "content-length"):
		if f.lengths++; f.lengths > 1 {
			return "more than one Content-Length"
		}
		if len(value) == 0 || len(value) > maxLengthDigits {
			return "malformed Content-Length"
		}
		f.left = 0
		for _, c := range value {
			if c < '0' || c > '9' {
				return "malformed Content-Length"
			}
			f.left = f.left*10 + int64(c-'0')
		}
	case foldedEqual(name, "transfer-encoding"):
		if f.codings++; f.codings > 1 {
			return "more than one Transfer-Encoding"
		}
		if !f.version11 {
			return "Transfer-Encoding in HTTP/1.0"
		}
		if !foldedEqual(value, "chunked") {
			return "a Transfer-Encoding other than chunked"
		}
	}
	return ""
}

// chunkSize reads the line before a chunk and returns how many digits its size has.
func (f *framing) chunkSize(line []byte) (digits int, why string) {
	f.left = 0
	for digits < len(line) {
		d := strings.IndexByte("0123456789abcdef", line[digits]|0x20)
		if line[digits] < '0' || d < 0 {
			break
		}
		f.left = f.left<<4 | int64(d)
		if digits++; digits > maxSizeDigits {
			return 0, "chunk size is too large"
		}
	}
	rest := line[digits:]
	if digits == 0 || len(rest) > 0 && rest[0] != ';' {
		return 0, "malformed chunk size"
	}
	for _, c := range rest {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return 0, "malformed chunk extension"
		}
	}
	if f.excess += len(rest); f.excess > maxExtensions {
		return 0, "too many chunk extensions"
	}
	return digits, ""
}
