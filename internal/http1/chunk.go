package http1

import "bytes"

// Bounds on the lines between chunks: one with a size and its extensions, all extensions of a body, and the digits of a
// size.
const (
	maxSizeLine   = 256
	maxExtensions = 16 << 10
	maxSizeDigits = 15
)

// Chunks reads the lines of a chunked body. The bytes of chunks are taken by its owner, who calls Took.
type Chunks struct {
	Left     int64 // of the chunk under way
	begun    bool  // a chunk has been read, so that its end is due
	trailing bool  // the last chunk has been read
	excess   int   // bytes of extensions
	trailers int   // bytes of trailers
	fields   int   // trailers
}

// Next reads lines from b until a chunk begins, or the body ends. It returns how many bytes of b it has used, and more
// as long as a line is missing. done means that the body has ended. Trailers are given to each.
func (c *Chunks) Next(b []byte, most Bounds, each func(name, value string) error) (n int, more, done bool, err error) {
	for {
		rest := b[n:]
		end := bytes.IndexByte(rest, '\n')
		if err := c.fits(rest, end, most); err != nil {
			return n, false, false, err
		}
		if end < 0 {
			return n, true, false, nil
		}
		if end == 0 || rest[end-1] != '\r' {
			return n, false, false, Mistake("a line ends with a bare LF")
		}
		text := rest[:end-1]
		n += end + 1
		switch {
		case c.trailing && len(text) == 0:
			return n, false, true, nil
		case c.trailing:
			c.trailers += end + 1
			if c.fields++; c.fields > most.Fields {
				return n, false, false, ErrTrailers
			}
			name, value, err := trailer(text)
			if err == nil {
				err = each(name, value)
			}
			if err != nil {
				return n, false, false, err
			}
		case c.begun:
			if len(text) > 0 {
				return n, false, false, Mistake("a chunk is longer than its size")
			}
			c.begun = false
		default:
			if err := c.size(text); err != nil {
				return n, false, false, err
			}
			if c.Left > 0 {
				c.begun = true
				return n, false, false, nil
			}
			c.trailing = true
		}
	}
}

// fits checks the bounds of a line, whose end may be yet to come.
func (c *Chunks) fits(rest []byte, end int, most Bounds) error {
	size := end + 1
	if end < 0 {
		size = len(rest) + 1
	}
	switch {
	case c.trailing && c.trailers+size > most.Bytes:
		return ErrTrailers
	case !c.trailing && size > maxSizeLine:
		return Mistake("chunk size line is too long")
	}
	return nil
}

// size reads the line before a chunk. Extensions are ignored.
func (c *Chunks) size(text []byte) error {
	c.Left = 0
	digits := 0
	for ; digits < len(text); digits++ {
		d := hexDigits[text[digits]]
		if d == 0 {
			break
		}
		if digits == maxSizeDigits {
			return Mistake("chunk size is too large")
		}
		c.Left = c.Left<<4 | int64(d-1)
	}
	rest := text[digits:]
	if digits == 0 || len(rest) > 0 && rest[0] != ';' {
		return Mistake("malformed chunk size")
	}
	for _, b := range rest {
		if b < ' ' && b != '\t' || b >= 0x7f {
			return Mistake("malformed chunk extension")
		}
	}
	if c.excess += len(rest); c.excess > maxExtensions {
		return Mistake("too many chunk extensions")
	}
	return nil
}

// hexDigits has the value of a digit, plus one.
var hexDigits = func() (values [256]uint8) {
	for i, c := range []byte("0123456789abcdef") {
		values[c] = uint8(i + 1)
		if c >= 'a' {
			values[c-'a'+'A'] = uint8(i + 1)
		}
	}
	return values
}()

// trailer reads one line behind the last chunk. Fields that frame or route a message may not be there (RFC 9110,
// 6.5.1).
func trailer(text []byte) (string, string, error) {
	var h Head
	if err := h.field(text, 0); err != nil {
		return "", "", err
	}
	l, all := h.lines[0], string(text)
	name, value := all[:l.colon], all[l.from:l.to]
	if !l.canonical {
		name = Canonical(name)
	}
	switch name {
	case "Content-Length", "Transfer-Encoding", "Host", "Trailer":
		return "", "", Mistake("a trailer that frames or routes the message")
	}
	return name, value, nil
}
