package postfixgate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of a request. One of Postfix has about 700 bytes in 30 lines.
const (
	maxRequest    = 64 << 10
	maxLine       = 8 << 10
	maxAttributes = 256
	firstRead     = 4 << 10
)

// Errors of malformed requests. After them it is unknown where the next one begins.
var (
	errRequest    = fmt.Errorf("a request of more than %d bytes", maxRequest)
	errLine       = fmt.Errorf("a line of more than %d bytes", maxLine)
	errAttributes = fmt.Errorf("a request of more than %d lines", maxAttributes)
	errNoPair     = errors.New("a line that is not name=value")
	errTwice      = errors.New("an attribute that comes twice")
	errKind       = errors.New("a request that is not smtpd_access_policy")
	errNumber     = errors.New("a number that is not valid")
	errCut        = errors.New("a request that ends in the middle")
)

// kind is the value of the attribute request.
const kind = "smtpd_access_policy"

// A request of Postfix has the attributes that the gate uses. Its values are valid until the next one is read. Those
// that are missing are empty.
type request struct {
	kind, state, instance, queue, sender, recipient, user, client []byte

	count int // of recipients; 0 before DATA
	size  int // of the message; 0: unknown
}

// parse reads the lines of a request, without the empty one at its end.
func (q *request) parse(text []byte) error {
	*q = request{}
	var counted, sized []byte
	fields := [...]struct {
		name  string
		value *[]byte
	}{
		{"request", &q.kind}, {"protocol_state", &q.state}, {"instance", &q.instance}, {"queue_id", &q.queue},
		{"sender", &q.sender}, {"recipient", &q.recipient}, {"sasl_username", &q.user}, {"client_address", &q.client},
		{"recipient_count", &counted}, {"size", &sized},
	}
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
		for _, f := range fields {
			if string(name) != f.name {
				continue
			}
			if *f.value != nil {
				return errTwice
			}
			*f.value = value
		}
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

// number reads digits. Without any it is 0.
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

// A reader reads requests from a connection, and allocates nothing for those of a usual size.
type reader struct{ *bufio.Scanner }

func newReader(from io.Reader) reader {
	s := bufio.NewScanner(from)
	s.Buffer(make([]byte, firstRead), maxRequest)
	s.Split(func(data []byte, atEOF bool) (advance int, text []byte, err error) {
		at := bytes.Index(data, blank)
		switch {
		case len(data) > 0 && data[0] == '\n':
			return 0, nil, errNoPair // an empty request
		case at >= 0:
			return at + len(blank), data[:at], nil
		case atEOF && len(data) > 0:
			return 0, nil, errCut
		}
		return 0, nil, nil
	})
	return reader{s}
}

// next reads a request. io.EOF means that there are no more.
func (r reader) next(q *request) error {
	if r.Scan() {
		return q.parse(r.Bytes())
	}
	switch err := r.Err(); {
	case err == nil:
		return io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return errRequest
	default:
		return err
	}
}
