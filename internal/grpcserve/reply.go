package grpcserve

import (
	"encoding/binary"
	"errors"
	"strconv"
	"unicode/utf8"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// appendFrame appends the head of a frame.
func appendFrame(to []byte, kind http2.FrameType, flags http2.Flags, stream uint32, size int) []byte {
	to = append(to, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(to, stream)
}

// Blocks of headers that never change. They refer to the static table of HPACK alone (RFC 7541, Appendix A), so they
// mean the same at any time.
var (
	status200   = []byte{0x88}
	contentType = append([]byte{0x0f, 0x10, 16}, "application/grpc"...)
	headersOK   = append(status200[:1:1], contentType...)
	trailersOK  = appendField(nil, "grpc-status", "0")
)

// appendField appends a field that is in no table.
func appendField(to []byte, name, value string) []byte {
	to = append(appendLength(append(to, 0), len(name)), name...)
	return append(appendLength(to, len(value)), value...)
}

// appendLength appends the length of a string that is not compressed (RFC 7541, 5.1 and 5.2).
func appendLength(to []byte, n int) []byte {
	if n < 127 {
		return append(to, byte(n))
	}
	to = append(to, 127)
	for n -= 127; n >= 128; n >>= 7 {
		to = append(to, byte(n)|128)
	}
	return append(to, byte(n))
}

// reply answers a call. The message has messageHead bytes before it that are filled in here; with an error there is
// none. The stream is over, or waits for a window.
func (c *conn) reply(s *stream, message []byte, err error) {
	if err != nil {
		c.replyError(s, status.Convert(err))
		return
	}
	if len(c.out)+c.held+len(message) > c.maxUnread {
		c.server.o.Bounded(ErrUnread.Name)
		c.reset(s, http2.ErrCodeEnhanceYourCalm)
		return
	}
	c.begin(s)
	if rest := c.send(s, messageOf(message)); len(rest) > 0 {
		c.stall(s, rest, trailersOK)
		return
	}
	c.finish(s, trailersOK)
}

// messageOf fills in the head of a message.
func messageOf(b []byte) []byte {
	b[0] = 0
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-messageHead))
	return b
}

// begin sends the headers of an answer.
func (c *conn) begin(s *stream) {
	s.replied = true
	c.out = append(appendFrame(c.out, http2.FrameHeaders, http2.FlagHeadersEndHeaders, s.id, len(headersOK)),
		headersOK...)
}

// finish sends a block of headers that ends an answer, and forgets the stream.
func (c *conn) finish(s *stream, block []byte) {
	c.out = append(appendFrame(c.out, http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, s.id,
		len(block)), block...)
	c.answered()
	if !s.ended { // the rest of the request is not wanted (RFC 9113, 8.1)
		c.reset(s, http2.ErrCodeNo)
		return
	}
	c.drop(s)
}

// replyError answers by an error, in one block where nothing has been sent.
func (c *conn) replyError(s *stream, st *status.Status) {
	var block []byte
	if !s.replied {
		block = append(block, headersOK...)
	}
	block = appendStatus(block, st.Code(), st.Message())
	if s.stalled {
		s.trailer = block
		return
	}
	c.finish(s, block)
}

// maxText is how much of an error a caller is told.
const maxText = 1 << 10

// appendStatus appends the fields that say how a call ended.
func appendStatus(to []byte, code codes.Code, text string) []byte {
	to = appendField(to, "grpc-status", strconv.Itoa(int(code)))
	if text == "" {
		return to
	}
	return appendField(to, "grpc-message", percentEncoded(text))
}

// percentEncoded is a text as it may stand in grpc-message: printable ASCII, and %XX for every other byte.
func percentEncoded(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
		for !utf8.ValidString(text) && len(text) > maxText-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		if b := text[i]; b < ' ' || b > '~' || b == '%' {
			out = append(out, '%', hex[b>>4], hex[b&15])
		} else {
			out = append(out, b)
		}
	}
	return string(out)
}

// A refusal is an answer to a call that does not get as far as its method.
type refusal struct {
	http string // the status of HTTP, where it is not 200
	code codes.Code
	text string
	more []byte // further fields
}

// The refusals.
var (
	tooLargeHeaders = &refusal{code: codes.ResourceExhausted, text: ErrHeaderList.Error()}
	slowRequest     = &refusal{code: codes.DeadlineExceeded, text: ErrSlow.Error()}
	noPost          = &refusal{http: "405", code: codes.Internal, text: "a call is a POST",
		more: appendField(nil, "allow", "POST")}
	noGRPC     = &refusal{http: "415", code: codes.Unknown, text: "the content-type is not that of gRPC"}
	noTimeout  = &refusal{code: codes.Internal, text: errTimeoutForm.Error()}
	noEncoding = &refusal{code: codes.Unimplemented, text: "messages are not compressed here",
		more: appendField(nil, "grpc-accept-encoding", "identity")}
	noMessage  = &refusal{code: codes.Internal, text: "a call has exactly one message, and it ends where it says"}
	compressed = &refusal{code: codes.Internal, text: "a message is compressed, and the call does not say how"}
)

// refuse answers a call by a refusal.
func (c *conn) refuse(s *stream, why *refusal) {
	if s.replied || s.running { // it is under way already
		c.reset(s, http2.ErrCodeCancel)
		return
	}
	block := status200
	if why.http != "" {
		block = append([]byte{0x08, byte(len(why.http))}, why.http...)
	}
	block = append(block[:len(block):len(block)], contentType...)
	block = appendStatus(block, why.code, why.text)
	c.finish(s, append(block, why.more...))
}

// errPanicked is what the caller is told of a panic.
var errPanicked = errors.New("the call failed")
