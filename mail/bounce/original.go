package bounce

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"weir/internal/shown"
)

// ownHeaders are never returned: what pays for a message, and whose mail another server says that it is.
var ownHeaders = []string{"X-Weir-Stamp", "X-Weir-User"}

// An original reads the message as it is returned: with CRLF line ends, without fields of weir's own.
type original struct {
	in     *bufio.Reader // of lines that end in CRLF
	full   bool
	eight  bool // it may have bytes over 127
	coded  bool // they are encoded (RFC 6522 section 3, RFC 6533 section 4)
	global bool // its type is one of RFC 6533
	left   int  // bytes that may follow
	header bool // the next line is in the header
	start  bool // the next piece begins a line
	skip   bool // the field is left out
	out    []byte
}

// readOriginal decides how much of the message is returned. A header, which is short, is read at once.
func readOriginal(r *Report) (*original, error) {
	in, size := r.Original, r.Size
	if in == nil {
		in = strings.NewReader("")
	}
	full := strings.EqualFold(r.Return, "FULL")
	eight := true // unless it is known: 8bit is always allowed
	if full && size <= 0 {
		ahead, err := io.ReadAll(io.LimitReader(in, MaxOriginal+1))
		if err != nil {
			return nil, err
		}
		size, in, eight = int64(len(ahead)), bytes.NewReader(ahead), !shown.ASCII(ahead)
	}
	full = full && size <= MaxOriginal
	o := &original{in: bufio.NewReader(&crlf{in: in}), full: full, left: 2 * MaxOriginal, header: true, start: true}
	if full {
		o.eight = eight
		return o, nil
	}
	o.left = MaxHeader
	text, err := io.ReadAll(o)
	if err != nil {
		return nil, err
	}
	if len(text) >= MaxHeader {
		text = text[:lastField(text)]
	}
	return &original{in: bufio.NewReader(bytes.NewReader(text)), left: len(text), header: true, start: true,
		eight: !shown.ASCII(text)}, nil
}

// lastField returns where the last field begins. That field is incomplete.
func lastField(text []byte) int {
	for i := len(text) - 2; i > 0; i-- {
		if text[i-1] == '\n' && text[i] != ' ' && text[i] != '\t' {
			return i
		}
	}
	return 0
}

func (o *original) encoding() string {
	switch {
	case o.coded:
		return "quoted-printable"
	case o.eight:
		return "8bit"
	}
	return "7bit"
}

func (o *original) Read(b []byte) (int, error) {
	for len(o.out) == 0 {
		if err := o.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, o.out)
	o.out = o.out[n:]
	return n, nil
}

// next reads a line, or a piece of a long one.
func (o *original) next() error {
	if o.left <= 0 {
		return io.EOF
	}
	line, err := o.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	if len(line) == 0 {
		return err
	}
	if o.header && o.start {
		switch {
		case string(line) == "\r\n":
			o.header, o.skip = false, false
			if !o.full {
				return io.EOF
			}
		case line[0] != ' ' && line[0] != '\t':
			o.skip = isOwn(line)
		}
	}
	o.start = line[len(line)-1] == '\n'
	if o.skip && o.header {
		return nil
	}
	o.out = line[:min(len(line), o.left)]
	o.left -= len(o.out)
	return nil
}

func isOwn(line []byte) bool {
	name, _, _ := bytes.Cut(line, []byte(":"))
	text := string(bytes.TrimRight(name, " \t\r\n"))
	return slices.ContainsFunc(ownHeaders, func(own string) bool { return strings.EqualFold(text, own) })
}

// A crlf reads a text with CR, LF or CRLF as its line ends, and returns it with CRLF.
type crlf struct {
	in   io.Reader
	cr   bool // the last byte was a CR
	buf  [2048]byte
	out  [2 * 2048]byte // each byte may become two
	rest []byte         // of out
	err  error
}

func (c *crlf) Read(b []byte) (int, error) {
	if len(c.rest) == 0 && c.err == nil {
		c.fill()
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	if n > 0 {
		return n, nil
	}
	return 0, c.err
}

func (c *crlf) fill() {
	n, err := c.in.Read(c.buf[:])
	out := c.out[:0]
	for _, x := range c.buf[:n] {
		switch {
		case x == '\n' && c.cr: // written already
		case x == '\n' || x == '\r':
			out = append(out, '\r', '\n')
		default:
			out = append(out, x)
		}
		c.cr = x == '\r'
	}
	c.rest, c.err = out, err
}
