package recorder

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/testkit/needs"
)

// An Answer is what the upstream says to a request.
type Answer struct {
	// Status is 200 where it is 0.
	Status int
	// Header are lines as they go out, "Name: value".
	Header []string
	// Body is sent with its length.
	Body string
}

// hello is the default answer.
func hello(Request) Answer {
	return Answer{Header: []string{"Content-Type: text/plain"}, Body: "hello\n"}
}

// An Upstream is a server that keeps the requests that it gets.
type Upstream struct {
	addr string

	mu       sync.Mutex
	answer   func(Request) Answer
	requests []Request
	faults   []error
	ended    bool
}

// Start starts an upstream that ends with the test. Start it before what sends to it, so that it ends afterwards.
func Start(t testing.TB) *Upstream {
	t.Helper()
	u := &Upstream{answer: hello}
	addr, stop, err := needs.Serve(u.serve)
	if err != nil {
		t.Fatal(err)
	}
	u.addr = addr
	t.Cleanup(func() {
		u.mu.Lock()
		u.ended = true
		u.mu.Unlock()
		stop()
		for _, err := range u.Faults() {
			t.Errorf("the upstream: %v", err)
		}
	})
	return u
}

func (u *Upstream) Addr() string { return u.addr }

// URL is where it listens, as an upstream is written.
func (u *Upstream) URL() string { return "http://" + u.Addr() }

// Answers sets the answer to requests from now on. Nil is a short greeting.
func (u *Upstream) Answers(answer func(Request) Answer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answer = answer; answer == nil {
		u.answer = hello
	}
}

// Requests returns the heads of the requests so far, in the order in which they were complete.
func (u *Upstream) Requests() [][]byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	heads := make([][]byte, len(u.requests))
	for i, r := range u.requests {
		heads[i] = slices.Clone(r.Head)
	}
	return heads
}

// Take returns the requests since it was last called, and forgets them.
func (u *Upstream) Take() []Request { return take(u, &u.requests) }

// Faults returns the errors of malformed requests since it was last called, and forgets them.
func (u *Upstream) Faults() []error { return take(u, &u.faults) }

func take[T any](u *Upstream, from *[]T) []T {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := *from
	*from = nil
	return taken
}

// serve answers one connection until it ends.
func (u *Upstream) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		if _, err := in.Peek(1); err != nil {
			return // a client may leave between two requests
		}
		r, err := read(in, c)
		if err == nil {
			err = u.keep(r)
		}
		if err != nil {
			u.fault(err)
			return
		}
		u.mu.Lock()
		answer := u.answer
		u.mu.Unlock()
		if _, err := c.Write(answer(r).wire(r)); err != nil || r.has("Connection", "close") ||
			strings.HasSuffix(r.Line(), " HTTP/1.0") {
			return
		}
	}
}

// read reads one request. It answers Expect: 100-continue.
func read(in *bufio.Reader, out io.Writer) (r Request, err error) {
	if r.Head, err = readHead(in); err != nil {
		return r, err
	}
	if parts := strings.Split(r.Line(), " "); len(parts) != 3 || !strings.HasPrefix(parts[2], "HTTP/1.") {
		return r, fmt.Errorf("%w: the request line %.80q", ErrMalformed, r.Line())
	}
	for _, line := range r.Lines() {
		if name, _, found := strings.Cut(line, ":"); !found || name == "" || strings.ContainsAny(name, " \t") {
			return r, fmt.Errorf("%w: the header line %.80q", ErrMalformed, line)
		}
	}
	if r.has("Expect", "100-continue") {
		if _, err := io.WriteString(out, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return r, err
		}
	}
	return r, r.readBody(in)
}

func (u *Upstream) keep(r Request) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.requests) >= maxRequests {
		return ErrTooMany
	}
	u.requests = append(u.requests, r)
	return nil
}

// fault notes an error, unless the upstream has ended.
func (u *Upstream) fault(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended && len(u.faults) < maxRequests {
		u.faults = append(u.faults, err)
	}
}

// wire is the answer as it goes out.
func (a Answer) wire(r Request) []byte {
	status := cmp.Or(a.Status, http.StatusOK)
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, line := range a.Header {
		b = append(append(b, line...), "\r\n"...)
	}
	if status != http.StatusNoContent && status != http.StatusNotModified {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(a.Body))
	}
	b = append(b, "\r\n"...)
	if r.Method() != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified {
		b = append(b, a.Body...)
	}
	return b
}
