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

// watchStream has an eye on what an HTTP/2 stream is offered, once the stream lasts. Until then it has the time that
// net/http's server gives it (httpOptions): to set a deadline takes that server longer than most answers.
func (x *exchange) watchStream() {
	x.timed = true
	wait := x.setup.opts.Timeouts.Progress.Std() / progressParts
	if x.late != nil {
		x.late.Reset(wait)
		return
	}
	x.mu.Lock() // the timer may fire before it is known
	defer x.mu.Unlock()
	x.late = time.AfterFunc(wait, x.lookAtStream)
}

// lookAtStream ends a stream whose client takes nothing of what it is offered, or sends nothing of what it owes. One
// that is offered nothing and owes nothing may last: the service, or a limit, takes its time. A deadline of net/http
// could not tell the two apart.
func (x *exchange) lookAtStream() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	stream, progress := http.NewResponseController(x.w), x.setup.opts.Timeouts.Progress.Std()
	now := time.Now().UnixNano()
	if since := x.offered.Load(); since != 0 && now-since > int64(progress) {
		_ = stream.SetWriteDeadline(past)
		return
	}
	if since := x.owed.Load(); since != 0 && now-since > int64(progress) && !x.converses() {
		_ = stream.SetReadDeadline(past)
	}
	if !x.lasts {
		x.lasts = true
		_ = stream.SetWriteDeadline(time.Time{})
	}
	x.late.Reset(progress / progressParts)
}

// owe notes that the client is waited for.
func (x *exchange) owe() { x.owed.Store(time.Now().UnixNano()) }

// offer notes that the client of an HTTP/2 stream is offered something, and taken that it took it.
func (x *exchange) offer() {
	if x.r.ProtoMajor >= 2 {
		x.offered.Store(time.Now().UnixNano())
	}
}

func (x *exchange) taken() {
	if x.r.ProtoMajor >= 2 {
		x.offered.Store(0)
	}
}

// limitEnd gives the client of an HTTP/2 stream that lasted the usual time for what net/http has gathered of its
// answer. x.mu is held.
func (x *exchange) limitEnd() {
	if x.lasts {
		_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(x.setup.writeTime()))
	}
}
