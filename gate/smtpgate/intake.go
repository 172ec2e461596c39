package smtpgate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"weir/internal/shown"
)

// An intake reads the text of a message, checks its form, and writes it with a new header. It keeps only the header in
// memory. After the first mistake it ignores the rest.
type intake struct {
	bounds *Bounds
	// begin is given the complete header, and returns the new one, or what is wrong.
	begin func(header []byte) ([]byte, *no)
	out   io.Writer // the text as it is stored
	body  io.Writer // the body alone; nil: not needed

	no      *no
	endless bool // it is unknown where the text ends
	size    int64

	line     int  // length of the current line
	cr       bool // the last byte was a CR
	eightBit bool

	header  []byte
	scanned int // bytes of complete lines in header that belong to it
	inBody  bool
}

var (
	lineEnd  = []byte("\r\n")
	mboxLine = []byte("From ")
)

// write takes the next piece.
func (t *intake) write(p []byte) {
	if t.size += int64(len(p)); t.no == nil && t.size > int64(t.bounds.Message) {
		t.no = tooLarge(t.bounds)
	}
	if t.no == nil {
		t.no = t.check(p)
	}
	if t.no != nil {
		return
	}
	t.pass(p)
}

// close ends the text. A last line without an end, which only BDAT can have, gets one.
func (t *intake) close() {
	switch {
	case t.no != nil:
		return
	case t.cr:
		t.no = t.bare()
		return
	case t.line > 0:
		t.line = 0
		t.pass(lineEnd)
	}
	if t.no == nil && !t.inBody {
		t.endHeader(len(t.header), len(t.header))
	}
}

// bare refuses a CR or LF alone. Servers disagree on its meaning, so that one would see two messages and another one.
func (t *intake) bare() *no {
	t.endless = true
	return refuse(MailMalformed, 554, 560, "a bare CR or LF is not allowed: lines end with CR LF")
}

// check returns the first mistake in the form of the text.
func (t *intake) check(p []byte) *no {
	if !t.eightBit {
		t.eightBit = beyondASCII(p)
	}
	if bytes.IndexByte(p, 0) >= 0 {
		return refuse(MailMalformed, 554, 560, "a mail has no NUL characters")
	}
	for len(p) > 0 {
		if t.cr {
			if p[0] != '\n' {
				return t.bare()
			}
			t.cr, t.line, p = false, 0, p[1:]
			continue
		}
		part, rest, ended := bytes.Cut(p, lineEnd[1:])
		at := bytes.IndexByte(part, '\r')
		switch {
		case at >= 0 && at < len(part)-1, at < 0 && ended:
			return t.bare()
		case at >= 0:
			part = part[:at]
			t.cr = !ended
		}
		if t.line += len(part); t.line > int(t.bounds.Line)-len(lineEnd) {
			return longLine(t.bounds)
		}
		if ended {
			t.line = 0
		}
		p = rest
	}
	return nil
}

func tooLarge(b *Bounds) *no {
	return refuse(MailTooLarge, 552, 534, "the mail is larger than "+b.Message.String()).at(BoundMessage)
}

func longLine(b *Bounds) *no {
	return refuse(MailTooLarge, 554, 560, fmt.Sprintf("a line is longer than %d bytes", b.Line)).at(BoundLine)
}

func beyondASCII(p []byte) bool {
	for ; len(p) >= 8; p = p[8:] {
		if binary.LittleEndian.Uint64(p)&0x8080808080808080 != 0 {
			return true
		}
	}
	return !shown.ASCII(p)
}

// pass keeps the header and writes the body.
func (t *intake) pass(p []byte) {
	if t.inBody {
		t.write1(t.out, p)
		if t.body != nil {
			t.write1(t.body, p)
		}
		return
	}
	t.header = append(t.header, p...)
	for {
		end := bytes.IndexByte(t.header[t.scanned:], '\n')
		if end < 0 {
			return
		}
		line := t.header[t.scanned : t.scanned+end+1]
		switch {
		case len(line) == len(lineEnd):
			t.endHeader(t.scanned, t.scanned+len(line))
			return
		case t.scanned > 0 && (line[0] == ' ' || line[0] == '\t'), fieldName(line) != nil:
			if t.scanned += len(line); t.scanned > int(t.bounds.Header) {
				t.no = refuse(MailTooLarge, 552, 534,
					"the header is larger than "+t.bounds.Header.String()).at(BoundHeader)
				return
			}
		case t.scanned == 0 && bytes.HasPrefix(line, mboxLine):
			t.header = t.header[len(line):] // it belongs to a mailbox file, not to a message
		default: // it is the body, and the empty line before it is missing
			t.endHeader(t.scanned, t.scanned)
			return
		}
	}
}

// endHeader writes the header, which ends at a position in t.header, and the beginning of the body.
func (t *intake) endHeader(end, body int) {
	t.inBody = true
	header, rest := t.header[:end], t.header[body:]
	top, n := t.begin(header)
	if n != nil {
		t.no = n
		return
	}
	t.write1(t.out, append(top, lineEnd...))
	if t.no == nil && len(rest) > 0 {
		t.pass(rest)
	}
	t.header = nil
}

// write1 writes to out or body. After an error of the store the rest of the text is still read.
func (t *intake) write1(w io.Writer, p []byte) {
	if t.no != nil {
		return
	}
	if _, err := w.Write(p); err != nil {
		t.no = &no{cause: err} // without a reply: see notTaken
	}
}

// fieldName returns the name of the header field that a line begins, or nil. Old software puts a space before the
// colon.
func fieldName(line []byte) []byte {
	name, _, found := bytes.Cut(line, []byte(":"))
	name = bytes.TrimRight(name, " \t")
	if !found || len(name) == 0 {
		return nil
	}
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return nil
		}
	}
	return name
}
