package nexthop

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errBareLine is for a bare CR or LF. Some servers take it for the end of a line, and the rest for commands.
var errBareLine = errors.New("the text has a CR or LF that is not part of a CRLF")

// A stuffer writes a text with doubled dots at the beginning of lines (RFC 5321 section 4.5.2).
type stuffer struct {
	w       *bufio.Writer
	inLine  bool // the last line has begun
	afterCR bool
	failed  error // of w
}

var dotByte = []byte(".")

func (s *stuffer) Write(p []byte) (int, error) {
	whole := len(p)
	for len(p) > 0 {
		if s.afterCR {
			if p[0] != '\n' {
				return whole - len(p), errBareLine
			}
			if err := s.pass(p[:1]); err != nil {
				return whole - len(p), err
			}
			p, s.afterCR, s.inLine = p[1:], false, false
			continue
		}
		line, ends := p, false
		if i := bytes.IndexByte(p, '\r'); i >= 0 {
			line, ends = p[:i], true
		}
		if bytes.IndexByte(line, '\n') >= 0 {
			return whole - len(p), errBareLine
		}
		if !s.inLine && p[0] == '.' {
			if err := s.pass(dotByte); err != nil {
				return whole - len(p), err
			}
		}
		n := len(line)
		s.inLine = s.inLine || n > 0
		if ends {
			n++
			s.afterCR = true
			if n < len(p) && p[n] == '\n' { // nearly always: one write for the line
				n++
				s.afterCR, s.inLine = false, false
			}
		}
		if err := s.pass(p[:n]); err != nil {
			return whole - len(p), err
		}
		p = p[n:]
	}
	return whole, nil
}

func (s *stuffer) pass(p []byte) error {
	if _, err := s.w.Write(p); err != nil {
		s.failed = err
	}
	return s.failed
}

func (s *stuffer) end() error {
	if s.afterCR {
		return errBareLine
	}
	if s.inLine {
		return s.pass([]byte("\r\n"))
	}
	return nil
}

// eightBit looks for bytes beyond ASCII in the header and in the body of a text.
func eightBit(open func() (io.ReadCloser, error)) (header, body bool, err error) {
	text, err := open()
	if err != nil {
		return false, false, err
	}
	defer text.Close()
	r := bufio.NewReader(text)
	for inHeader, start := true, true; ; {
		part, err := r.ReadSlice('\n')
		if inHeader && start && len(bytes.TrimRight(part, "\r\n")) == 0 {
			inHeader = false
		}
		start = err == nil
		if bytes.ContainsFunc(part, func(r rune) bool { return r >= 0x80 }) {
			header, body = header || inHeader, body || !inHeader
		}
		if err == io.EOF {
			return header, body, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return false, false, err
		}
	}
}
