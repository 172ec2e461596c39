package postfixgate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of a request. Postfix' are about 700 bytes in 30 lines.
const (
	maxRequest    = 64 << 10
	maxLine       = 8 << 10
	maxAttributes = 256
	firstRead     = 4 << 10
)

// Errors of requests that are none. After them nobody knows where the next one begins.
var (
	errRequest    = fmt.Errorf("a request of more than %d bytes", maxRequest)
	errLine       = fmt.Errorf("a line of more than %d bytes", maxLine)
	errAttributes = fmt.Errorf("a request of more than %d lines", maxAttributes)
	errNoPair     = errors.New("a line that is not name=value")
	errTwice      = errors.New("an attribute that comes twice")
	errKind       = errors.New("a request that is not smtpd_access_policy")
	errNumber     = errors.New("a number that is none")
	errCut        = errors.New("a request that ends in the middle")
)

// kind is what a request must say it is.
const kind = "smtpd_access_policy"

// A request is what Postfix says about a mail, as far as the gate wants to know. Its values are good until the next one
// is read; those that are missing are empty.
type request struct {
	kind, state, instance, queue, sender, recipient, user, client []byte

	count int // of recipients; 0 before DATA
	size  int // of the mail; 0 where it is not known
}

// parse reads the lines of a request, without the empty one at its end.
func (q *request) parse(text []byte) error {
	*q = request{}
	var counted, sized []byte
	for n := 0; len(text) > 0; n++ {
		line, rest, _ := bytes.Cut(text, newline)
		text = rest
		if len(line) > maxLine {
			return errLine
		}
		if n == maxAttributes {
			return errAttributes
		}
		name, value, found := bytes.Cut(line, equals)
		if !found || len(name) == 0 {
			return errNoPair
		}
		var field *[]byte
		switch string(name) {
		case "request":
			field = &q.kind
		case "protocol_state":
			field = &q.state
		case "instance":
			field = &q.instance
		case "queue_id":
			field = &q.queue
		case "sender":
			field = &q.sender
		case "recipient":
			field = &q.recipient
		case "sasl_username":
			field = &q.user
		case "client_address":
			field = &q.client
		case "recipient_count":
			field = &counted
		case "size":
			field = &sized
		default:
			continue
		}
		if *field != nil {
			return errTwice
		}
		*field = value
	}
	if string(q.kind) != kind {
		return errKind
	}
	var ok1, ok2 bool
	q.count, ok1 = number(counted)
	q.size, ok2 = number(sized)
	if !ok1 || !ok2 {
		return errNumber
	}
	return nil
}

var newline, equals, blank = []byte("\n"), []byte("="), []byte("\n\n")

// number reads digits; none are 0.
func number(digits []byte) (n int, ok bool) {
	if len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// A reader takes requests from a connection, and allocates nothing for those of a usual size.
type reader struct {
	from io.Reader
	buf  []byte // what was read; those of begin:end are not yet parsed
	// The texts of the request before are before begin.
	begin, end int
}

func newReader(from io.Reader) *reader { return &reader{from: from, buf: make([]byte, firstRead)} }

// buffered reports whether a part of the next request is there.
func (r *reader) buffered() bool { return r.begin < r.end }

// next reads a request. io.EOF means that there are no more.
func (r *reader) next(q *request) error {
	seen := 0 // of begin:end, without the end of the request
	for {
		if r.end > r.begin && r.buf[r.begin] == '\n' {
			return errNoPair // an empty request
		}
		if at := bytes.Index(r.buf[r.begin+seen:r.end], blank); at >= 0 {
			text := r.buf[r.begin : r.begin+seen+at]
			r.begin += seen + at + len(blank)
			return q.parse(text)
		}
		seen = max(r.end-r.begin-1, 0) // the last byte may be the first of the two
		if err := r.more(); err != nil {
			if errors.Is(err, io.EOF) && r.buffered() {
				return errCut
			}
			return err
		}
	}
}

// more reads something, and makes room first if there is none.
func (r *reader) more() error {
	switch {
	case r.begin == r.end:
		r.begin, r.end = 0, 0
	case r.end == len(r.buf) && r.begin > 0:
		r.end = copy(r.buf, r.buf[r.begin:r.end])
		r.begin = 0
	}
	if r.end == len(r.buf) {
		if len(r.buf) >= maxRequest {
			return errRequest
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.from.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
