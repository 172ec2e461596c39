package recorder

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds on what is kept.
const (
	maxHead     = 1 << 20
	maxBody     = 8 << 20
	maxRequests = 10_000
)

// What may be wrong with a request.
var (
	ErrHeadTooLarge = fmt.Errorf("the head of a request is larger than %d bytes", maxHead)
	ErrBodyTooLarge = fmt.Errorf("the body of a request is larger than %d bytes", maxBody)
	ErrTooMany      = fmt.Errorf("there were more than %d requests", maxRequests)
	ErrMalformed    = errors.New("a request is malformed")
)

// A Request is what one request was on the wire.
type Request struct {
	// Head is the request line and the header lines, with the empty line that ends them.
	Head []byte
	// Body is the content, without the framing of chunks.
	Body []byte
	// Framed is the body as it came, with the framing of chunks and the trailer.
	Framed []byte
}

// Line is the request line.
func (r Request) Line() string {
	line, _, _ := strings.Cut(string(r.Head), "\r\n")
	return line
}

// Method is the first word of the request line.
func (r Request) Method() string {
	method, _, _ := strings.Cut(r.Line(), " ")
	return method
}

// Target is the part of the request line between the method and the version.
func (r Request) Target() string {
	_, rest, _ := strings.Cut(r.Line(), " ")
	return rest[:max(0, strings.LastIndexByte(rest, ' '))]
}

// Path is the target up to the query.
func (r Request) Path() string {
	path, _, _ := strings.Cut(r.Target(), "?")
	return path
}

// Lines are the header lines in their order, without their ends.
func (r Request) Lines() []string {
	_, rest, _ := strings.Cut(strings.TrimSuffix(string(r.Head), "\r\n\r\n"), "\r\n")
	if rest == "" {
		return nil
	}
	return strings.Split(rest, "\r\n")
}

// Named are the header lines of a name, whatever its case, in their order.
func (r Request) Named(name string) []string {
	return slices.DeleteFunc(r.Lines(), func(line string) bool {
		n, _, _ := strings.Cut(line, ":")
		return !strings.EqualFold(n, name)
	})
}

// Values are the values of the header lines of a name, without the space around them.
func (r Request) Values(name string) (values []string) {
	for _, line := range r.Named(name) {
		_, value, _ := strings.Cut(line, ":")
		values = append(values, strings.Trim(value, " \t"))
	}
	return values
}

// Pairs are the cookies as they came, "name=value", in the order of the lines.
func (r Request) Pairs() (pairs []string) {
	for _, line := range r.Values("Cookie") {
		for pair := range strings.SplitSeq(line, ";") {
			pairs = append(pairs, strings.TrimLeft(pair, " "))
		}
	}
	return pairs
}

// has reports whether a list in the header names a word.
func (r Request) has(name, word string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(r.Values(name), ","), ","),
		func(part string) bool { return strings.EqualFold(strings.TrimSpace(part), word) })
}

// readHead reads up to the empty line. Its error is io.EOF where nothing came.
func readHead(in *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := readLine(in, maxHead-len(head), ErrHeadTooLarge)
		head = append(head, line...)
		switch {
		case err == io.EOF && len(head) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(line) == 2:
			if len(head) == 2 {
				return nil, fmt.Errorf("%w: an empty line before it", ErrMalformed)
			}
			return head, nil
		}
	}
}

// readLine reads a line with its CRLF. It is an error where the line has more bytes than the bound.
func readLine(in *bufio.Reader, most int, tooLarge error) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > most {
			return line, tooLarge
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return line, err
		}
		if !bytes.HasSuffix(line, []byte("\r\n")) {
			return line, fmt.Errorf("%w: the line %.40q ends without CR", ErrMalformed, line)
		}
		return line, nil
	}
}

// readBody reads the body that the head announces.
func (r *Request) readBody(in *bufio.Reader) error {
	lengths, codings := r.Values("Content-Length"), r.Values("Transfer-Encoding")
	switch {
	case len(lengths)+len(codings) > 1:
		return fmt.Errorf("%w: its length is said twice: %q, %q", ErrMalformed, lengths, codings)
	case len(codings) == 1 && !strings.EqualFold(codings[0], "chunked"):
		return fmt.Errorf("%w: Transfer-Encoding %q", ErrMalformed, codings[0])
	case len(codings) == 1:
		return cutShort(r.readChunks(in))
	case len(lengths) == 0:
		return nil
	}
	n, err := strconv.ParseUint(lengths[0], 10, 63)
	if err != nil {
		return fmt.Errorf("%w: Content-Length %q", ErrMalformed, lengths[0])
	}
	if n > maxBody {
		return ErrBodyTooLarge
	}
	r.Body = make([]byte, n)
	_, err = io.ReadFull(in, r.Body)
	r.Framed = r.Body
	return cutShort(err)
}

func (r *Request) readChunks(in *bufio.Reader) error {
	next := func() (string, error) {
		line, err := readLine(in, maxBody-len(r.Framed), ErrBodyTooLarge)
		r.Framed = append(r.Framed, line...)
		return strings.TrimSuffix(string(line), "\r\n"), err
	}
	for {
		line, err := next()
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(size, 16, 63)
		if err != nil {
			return fmt.Errorf("%w: a chunk of %q bytes", ErrMalformed, size)
		}
		if n > uint64(maxBody-len(r.Framed)) {
			return ErrBodyTooLarge
		}
		if n == 0 {
			break
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return err
		}
		r.Framed = append(r.Framed, chunk...)
		if !bytes.HasSuffix(chunk, []byte("\r\n")) {
			return fmt.Errorf("%w: a chunk is longer than it says", ErrMalformed)
		}
		r.Body = append(r.Body, chunk[:n]...)
	}
	for { // trailers
		if line, err := next(); err != nil || line == "" {
			return err
		}
	}
}

// cutShort turns the end of the connection within a body into an error.
func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
