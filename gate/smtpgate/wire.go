package smtpgate

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// A wire reads from a client: commands line by line, and texts piece by piece. It reads exactly to the end of a line or
// a text, so that no part of a text is read as a command. It is for one goroutine.
type wire struct {
	src  io.Reader
	buf  []byte
	r, w int // buf[r:w] has come and is not read yet
}

var (
	errLongLine = errors.New("the line is too long")
	errBareLine = errors.New("lines end with CR LF")
)

// readSize is the buffer of each session. Texts have a larger one.
const readSize = 4 << 10

// pieces are the buffers for texts.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func newWire(src io.Reader) *wire { return &wire{src: src, buf: make([]byte, readSize)} }

// fill reads more into the buffer, which must not be full of unread bytes.
func (w *wire) fill() error {
	if w.r > 0 {
		w.w = copy(w.buf, w.buf[w.r:w.w])
		w.r = 0
	}
	n, err := w.src.Read(w.buf[w.w:])
	if w.w += n; n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// line returns the next line without its CR LF. It is valid until the next call of any method. A line of more than most
// bytes with its end is errLongLine, and a CR or LF alone is errBareLine. After either it is unknown where the next
// line begins.
func (w *wire) line(most int) ([]byte, error) {
	for seen := 0; ; {
		got := w.buf[w.r:w.w]
		if i := bytes.IndexByte(got[seen:], '\n'); i >= 0 {
			line := got[:seen+i+1]
			if len(line) > most {
				return nil, errLongLine
			}
			w.r += len(line)
			text, ok := bytes.CutSuffix(line, lineEnd)
			if !ok || bytes.IndexByte(text, '\r') >= 0 {
				return nil, errBareLine
			}
			return text, nil
		}
		if len(got) >= most {
			return nil, errLongLine
		}
		if seen = len(got); seen == len(w.buf) {
			w.buf = append(got, make([]byte, min(seen, most-seen))...)
		}
		if err := w.fill(); err != nil {
			return nil, err
		}
	}
}

// pending reports whether something has come that is not read yet.
func (w *wire) pending() bool { return w.r < w.w }

// widen takes a larger buffer. The function that it returns gives it back.
func (w *wire) widen() (narrow func()) {
	small, large := w.buf, pieces.Get().(*[32 << 10]byte)
	if len(small) > len(large) { // a line has made it larger than that
		pieces.Put(large)
		return func() {}
	}
	w.w = copy(large[:], small[w.r:w.w])
	w.buf, w.r = large[:], 0
	return func() {
		if w.w-w.r > len(small) { // commands behind the text
			small = make([]byte, w.w-w.r)
		}
		w.w = copy(small, w.buf[w.r:w.w])
		w.buf, w.r = small, 0
		pieces.Put(large)
	}
}

// text calls take with everything up to the end of a DATA text, without the doubled dots (RFC 5321 section 4.5.2). It
// ends at CR LF, a dot and CR LF, and nowhere else.
func (w *wire) text(take func([]byte)) error {
	defer w.widen()()
	d := dots{begins: true}
	for {
		text, used, ended := d.take(w.buf[w.r:w.w])
		w.r += used
		if len(text) > 0 {
			take(text)
		}
		if ended {
			return nil
		}
		if err := w.fill(); err != nil {
			return err
		}
	}
}

// chunk calls take with that many bytes (RFC 3030 section 2).
func (w *wire) chunk(size int64, take func([]byte)) error {
	if size > readSize {
		defer w.widen()()
	}
	for size > 0 {
		if w.r == w.w {
			if err := w.fill(); err != nil {
				return err
			}
		}
		p := w.buf[w.r : w.r+int(min(size, int64(w.w-w.r)))]
		w.r += len(p)
		take(p)
		size -= int64(len(p))
	}
	return nil
}

// dots remove doubled dots from a text that comes in pieces, and find its end.
type dots struct {
	begins bool // what comes next begins a line
	cr     bool // what came last is a CR
}

var textEnd = []byte(".\r\n")

// take returns the text of p, in p itself, how many bytes of p were used, and whether the text ends there. If it does
// not, the rest of p must come again with more behind it.
func (d *dots) take(p []byte) (text []byte, used int, ended bool) {
	kept, at := 0, 0
	for at < len(p) {
		if d.begins && p[at] == '.' {
			switch rest := p[at:]; {
			case bytes.HasPrefix(rest, textEnd):
				return p[:kept], at + len(textEnd), true
			case bytes.HasPrefix(textEnd, rest):
				return p[:kept], at, false
			}
			at++
		}
		end := len(p)
		lf := bytes.IndexByte(p[at:], '\n')
		switch {
		case lf > 0:
			end = at + lf + 1
			d.begins = p[end-2] == '\r'
		case lf == 0:
			end = at + 1
			d.begins = d.cr
		default:
			d.begins = false
		}
		d.cr = p[end-1] == '\r'
		if kept == at {
			kept = end
		} else {
			kept += copy(p[kept:], p[at:end])
		}
		at = end
	}
	return p[:kept], at, false
}
