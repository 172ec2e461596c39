package httpgate

import (
	"net/http"
	"strings"
	"time"

	"weir/internal/http1"
)

// goodPath reports whether the path of an HTTP/2 request is one. A URL, as HTTP/1 has it for proxies, is not: :scheme
// and :authority say the same (RFC 9113, section 8.3.1).
func goodPath(r *http.Request) bool {
	return strings.HasPrefix(r.RequestURI, "/") || r.RequestURI == "*" && r.Method == http.MethodOptions
}

// headSize is the size of an HTTP/2 request's head, as it would be in HTTP/1.
func headSize(r *http.Request, f *http1.Fields) int64 {
	n := int64(len(r.Method) + len(r.RequestURI) + len(r.Host) + len("  HTTP/1.1\r\nHost: \r\n\r\n"))
	for i := range f.Len() {
		name, value := f.At(i)
		n += int64(len(name) + len(value) + len(": \r\n"))
	}
	return n
}

// trailing reports whether net/http may still read the header of the answer, for trailers.
func (x *exchange) trailing() bool { return x.reply == nil && x.w.Header()["Trailer"] != nil }

// prolongLater has prolong called when an HTTP/2 stream takes its time.
func (x *exchange) prolongLater() {
	x.timed = true
	if wait := x.setup.opts.Timeouts.Progress.Std() / 8; x.late == nil {
		x.late = time.AfterFunc(wait, x.prolong)
	} else {
		x.late.Reset(wait)
	}
}

// renewWrite gives an HTTP/2 stream more time. For HTTP/1, wire.Write does it.
func (x *exchange) renewWrite() {
	if x.r.ProtoMajor < 2 {
		return
	}
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if now.Sub(x.lastWrite) > x.setup.opts.Timeouts.Progress.Std()/8 {
		x.lastWrite = now
		x.streamDeadline()
	}
}

// prolong is called when an HTTP/2 stream takes its time. Until then it has the time that net/http's server gives it
// (httpOptions): to set a deadline takes that server longer than most answers.
func (x *exchange) prolong() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.prolonged = true
	x.streamDeadline()
}

// streamDeadline sets the deadline for writing to an HTTP/2 stream. There is none before the answer. x.mu is held.
func (x *exchange) streamDeadline() {
	if x.over || !x.prolonged {
		return
	}
	var until time.Time
	if !x.lastWrite.IsZero() {
		until = x.lastWrite.Add(x.setup.writeTime())
	}
	_ = http.NewResponseController(x.w).SetWriteDeadline(until)
}
