package httpgate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir/internal/http1"
)

// A reply writes the answers of a session, one after the other. What it writes is gathered, and sent off when there is
// enough of it, on Flush, and at the end.
type reply struct {
	session *session
	header  http.Header
	fields  *http1.Fields // of the request
	passed  http1.Fields  // of an answer that is passed on: they go before those of header
	mixed   bool          // there are some of header among them, whose names have not been checked

	mu       sync.Mutex // the body's sender writes 100 Continue, and a timer sends heads off
	request  *http.Request
	out      []byte // what is to be sent; in block
	block    *block
	status   int   // 0 before the final head has been written
	left     int64 // of the length that was announced; -1 where none was
	chunked  bool
	bodiless bool // the answer has no body whatever is written
	close    bool // the connection ends with this answer
	hijacked bool
	over     bool
	err      error
	trailers []string // that were announced
}

func (w *reply) begin(r *http.Request, fields *http1.Fields) {
	if w.header == nil {
		w.header = make(http.Header, 8)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request, w.status, w.left, w.chunked, w.bodiless, w.close, w.over, w.err = r, 0, -1, false, false, r.Close, false,
		nil
	w.trailers, w.fields = w.trailers[:0], fields
	w.passed.Reset()
	w.mixed = false
}

func (w *reply) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.request, w.fields = true, nil, nil
	clear(w.header)
	if w.block != nil {
		blocks.Put(w.block)
		w.block, w.out = nil, nil
	}
}

// abandon ends an answer that will not be completed.
func (w *reply) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.hijacked {
		_ = w.flush()
	}
	w.over = true
}

// Header returns the headers of the answer. After WriteHeader, only trailers count.
func (w *reply) Header() http.Header { return w.header }

// WriteHeader writes the head. An informational one is sent off at once; the final one counts once.
func (w *reply) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status != 0 || w.over || w.hijacked {
		return
	}
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		w.gather()
		if w.request.ProtoMinor == 1 { // HTTP/1.0 knows none
			w.head(status)
			w.passed.Del("Content-Length")
			w.passed.Del("Transfer-Encoding")
			w.lines()
			w.add("\r\n")
			_ = w.flush()
		}
		w.passed.Reset()
		return
	}
	w.status = status
	w.gather()
	w.head(status)
	w.frame()
	w.lines()
	w.add("\r\n")
}

// gather moves what was set in the header to the list that is written.
func (w *reply) gather() {
	if len(w.header) > 0 {
		w.passed.AddHeader(w.header)
		w.mixed = true
		clear(w.header)
	}
}

// head writes the status line.
func (w *reply) head(status int) {
	if w.request.ProtoMinor == 0 {
		w.add("HTTP/1.0 ")
	} else {
		w.add("HTTP/1.1 ")
	}
	w.out = append(strconv.AppendInt(w.out, int64(status), 10), ' ')
	w.add(http.StatusText(status))
	w.add("\r\n")
}

// frame decides how the body is framed, and whether the connection goes on.
func (w *reply) frame() {
	f := &w.passed
	w.bodiless = w.request.Method == http.MethodHead || w.status == http.StatusNoContent ||
		w.status == http.StatusNotModified
	if lengths := f.Values("Content-Length"); len(lengths) > 0 {
		if n, err := strconv.ParseInt(lengths[0], 10, 64); err == nil && n >= 0 && len(lengths) == 1 &&
			w.status != http.StatusNoContent {
			w.left = n
		} else {
			f.Del("Content-Length")
		}
	}
	f.Del("Transfer-Encoding")
	for _, list := range f.Values("Trailer") {
		for name := range strings.SplitSeq(list, ",") {
			w.trailers = append(w.trailers, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	if options := f.Values("Connection"); options != nil {
		w.close = w.close || httpguts.HeaderValuesContainsToken(options, "close")
		f.Del("Connection")
	}
	w.close = w.close || w.session.gate.Stopping()
	if w.left < 0 && !w.bodiless {
		if w.request.ProtoMinor == 1 {
			w.chunked = true
			w.add("Transfer-Encoding: chunked\r\n")
		} else {
			w.close = true
		}
	}
	switch {
	case w.close:
		w.add("Connection: close\r\n")
	case w.request.ProtoMinor == 0:
		w.add("Connection: keep-alive\r\n")
	}
	if !f.Has("Date") {
		w.add("Date: ")
		w.add(today(time.Now()))
		w.add("\r\n")
	}
}

// lines writes the headers. Those that the upstream wrote well go on as they are.
func (w *reply) lines() {
	for i := 0; i < w.passed.Len(); {
		if lines, n := w.passed.Run(i); n > 0 && len(w.trailers) == 0 {
			w.add(lines)
			i += n
			continue
		}
		if name, value := w.passed.At(i); !w.mixed || http1.IsToken(name) && !slices.Contains(w.trailers, name) {
			w.field(name, value)
		}
		i++
	}
}

func (w *reply) field(name, value string) {
	if !http1.IsValue(value) {
		value = oneLine.Replace(value) // a line end in a value would begin another header
	}
	w.add("")
	w.out = http1.AppendField(w.out, name, value)
}

var oneLine = strings.NewReplacer("\r", " ", "\n", " ", "\x00", " ")

func (w *reply) add(s string) {
	if w.block == nil {
		w.block = blocks.Get().(*block)
		w.out = w.block[:0]
	}
	w.out = append(w.out, s...)
}

// Write writes a piece of the body.
func (w *reply) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hijacked:
		return 0, http.ErrHijacked
	case w.over:
		return 0, errOver
	case w.err != nil:
		return 0, w.err
	case len(p) == 0:
		return 0, nil
	case w.bodiless && w.request.Method != http.MethodHead:
		return 0, http.ErrBodyNotAllowed
	case w.bodiless:
		return len(p), nil
	case w.left >= 0 && int64(len(p)) > w.left:
		return 0, http.ErrContentLength
	}
	if w.left >= 0 {
		w.left -= int64(len(p))
	}
	if w.chunked {
		w.add("")
		w.out = strconv.AppendUint(w.out, uint64(len(p)), 16)
		w.add("\r\n")
	}
	if w.gathers(len(p)) {
		w.add("")
		w.out = append(w.out, p...)
	} else {
		if w.flush() != nil {
			return 0, w.err
		}
		if _, w.err = w.session.conn.Write(p); w.err != nil {
			return 0, w.err
		}
	}
	if w.chunked {
		w.add("\r\n")
	}
	return len(p), nil
}

// fits reports whether n bytes of the body are gathered behind what is to be sent, with the size of a chunk.
func (w *reply) fits(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gathers(len("ffff\r\n") + n)
}

func (w *reply) gathers(n int) bool { return len(w.out)+n <= len(block{}) }

// flush sends off what has been gathered. w.mu is held.
func (w *reply) flush() error {
	if w.err == nil && len(w.out) > 0 {
		_, w.err = w.session.conn.Write(w.out)
		w.out = w.out[:0]
	}
	return w.err
}

// FlushError sends off what has been written.
func (w *reply) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.hijacked {
		return errOver
	}
	return w.flush()
}

// Flush sends off what has been written.
func (w *reply) Flush() { _ = w.FlushError() }

// goOn writes 100 Continue, unless the answer has begun.
func (w *reply) goOn() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status != 0 || w.over || w.hijacked {
		return errOver
	}
	w.add("HTTP/1.1 100 Continue\r\n\r\n")
	return w.flush()
}

// finish writes the end of the answer and sends it off. An answer that is shorter than announced is an error.
func (w *reply) finish() error {
	if w.status == 0 {
		w.header["Content-Length"] = []string{"0"}
		w.WriteHeader(http.StatusOK)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chunked {
		w.add("0\r\n")
		for name, values := range w.header {
			late, ok := strings.CutPrefix(name, http.TrailerPrefix)
			for i := range values {
				if (ok || slices.Contains(w.trailers, name)) && http1.IsToken(late) {
					w.field(late, values[i])
				}
			}
		}
		w.add("\r\n")
	}
	if err := w.flush(); err != nil {
		return err
	}
	if w.left > 0 && !w.bodiless {
		return io.ErrShortWrite
	}
	return nil
}

// SetReadDeadline is for http.ResponseController.
func (w *reply) SetReadDeadline(t time.Time) error {
	w.session.due = time.Time{}
	return w.session.conn.SetReadDeadline(t)
}

// Hijack hands the connection over.
func (w *reply) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hijacked || w.over || w.status != 0 {
		return nil, nil, http.ErrHijacked
	}
	s := w.session
	if s.body != nil && !s.body.ended {
		return nil, nil, errors.New("the request has a body that has not been read")
	}
	w.hijacked = true
	_ = s.conn.SetReadDeadline(time.Time{})
	ahead := append([]byte(nil), s.in...)
	s.in = nil
	r := bufio.NewReader(io.MultiReader(bytes.NewReader(ahead), s.conn))
	if len(ahead) > 0 {
		_, _ = r.Peek(len(ahead))
	}
	return s.conn, bufio.NewReadWriter(r, bufio.NewWriter(s.conn)), nil
}

// A date is a Date header, and the second that it is for.
type date struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[date]

// today is the time as a Date header has it.
func today(now time.Time) string {
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
		lastDate.Store(d)
	}
	return d.text
}
