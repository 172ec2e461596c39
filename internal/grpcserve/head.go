package grpcserve

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A head is a block of headers while it is read.
type head struct {
	stream    uint32
	ends      bool // the stream ends with it
	self      bool // the stream depends on itself
	bytes     int  // of the block so far
	continued int  // frames
	most      uint32

	size      uint32 // as RFC 9113, 6.5.2 counts
	pseudo    uint8
	regular   bool // a field that is not a pseudo-header has come
	malformed error
	method    string
	path      string
	content   string
	encoding  string
	timeout   time.Duration
	timed     bool // there is a timeout
	length    int64
}

// The pseudo-headers of a request.
const (
	pseudoMethod = 1 << iota
	pseudoScheme
	pseudoPath
	pseudoAuthority
	pseudoNeeded = pseudoMethod | pseudoScheme | pseudoPath
)

var (
	errFieldName   = errors.New("the name of a header is malformed")
	errFieldValue  = errors.New("the value of a header is malformed")
	errPseudo      = errors.New("a pseudo-header is unknown, empty, comes twice, or in the wrong place")
	errPseudoNone  = errors.New("a pseudo-header is missing")
	errConnection  = errors.New("a header belongs to a connection of HTTP/1")
	errLength      = errors.New("the length of the content is not the one that was announced")
	errTimeoutForm = errors.New("grpc-timeout is malformed")
)

// field takes a field of the block.
func (h *head) field(f hpack.HeaderField) {
	// The sum is bounded: a field is at most as long as the decoder allows, and those over the bound add nothing.
	if h.size > h.most {
		return
	}
	if h.size += f.Size(); h.size > h.most || h.malformed != nil {
		return
	}
	if !httpguts.ValidHeaderFieldValue(f.Value) {
		h.malformed = errFieldValue
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		h.pseudoHeader(f)
		return
	}
	h.regular = true
	if !validName(f.Name) {
		h.malformed = errFieldName
		return
	}
	switch f.Name {
	case "content-type":
		h.content = f.Value
	case "grpc-timeout":
		var ok bool
		if h.timeout, ok = parseTimeout(f.Value); !ok {
			h.malformed = errTimeoutForm
		}
		h.timed = true
	case "grpc-encoding":
		h.encoding = f.Value
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			h.malformed = errLength
		}
		h.length = int64(n)
	case "te":
		if f.Value != "trailers" {
			h.malformed = errConnection
		}
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		h.malformed = errConnection
	}
}

// pseudoHeader takes a pseudo-header: each comes once, before all other fields (RFC 9113, 8.3).
func (h *head) pseudoHeader(f hpack.HeaderField) {
	var bit uint8
	switch f.Name {
	case ":method":
		bit, h.method = pseudoMethod, f.Value
	case ":scheme":
		bit = pseudoScheme
	case ":path":
		bit, h.path = pseudoPath, f.Value
	case ":authority":
		bit = pseudoAuthority
	}
	if bit == 0 || h.regular || h.pseudo&bit != 0 || f.Value == "" && bit != pseudoAuthority {
		h.malformed = errPseudo
	}
	h.pseudo |= bit
}

// validName reports whether a name is a token in lower case (RFC 9113, 8.2.1).
func validName(name string) bool {
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' || !httpguts.IsTokenRune(rune(c)) || c >= 0x80 {
			return false
		}
	}
	return name != ""
}

// takeHeaders begins a block of headers.
func (c *conn) takeHeaders(f *http2.HeadersFrame) error {
	c.head = head{stream: f.StreamID, ends: f.StreamEnded(), most: uint32(c.server.o.HeaderList), length: -1,
		self: f.HasPriority() && f.Priority.StreamDep == f.StreamID}
	return c.takeFragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

// takeContinuation goes on with a block of headers. The framer has seen to it that there is one.
func (c *conn) takeContinuation(f *http2.ContinuationFrame) error {
	if c.head.continued++; c.head.continued > maxContinued {
		return c.exceeded(ErrHeaderBlock)
	}
	return c.takeFragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

func (c *conn) takeFragment(b []byte, last bool) error {
	h := &c.head
	// What is compressed is not longer than what it stands for, but for changes of the table's size.
	if h.bytes += len(b); h.bytes > int(h.most)+frameSize {
		return c.exceeded(ErrHeaderBlock)
	}
	if _, err := c.hpack.Write(b); err != nil {
		return c.compression(err)
	}
	if !last {
		return nil
	}
	if err := c.hpack.Close(); err != nil {
		return c.compression(err)
	}
	return c.takeHead()
}

// compression is the error for a block that cannot be read. A string over the bound leaves no way to read on.
func (c *conn) compression(err error) error {
	if errors.Is(err, hpack.ErrStringLength) {
		return c.exceeded(ErrHeaderBlock)
	}
	return connError{http2.ErrCodeCompression, err}
}
