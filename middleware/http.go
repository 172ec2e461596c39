package middleware

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"weir"
	"weir/gate/httpgate/pages"
	"weir/gate/refusal"
)

// Handler puts the throttles in front of a handler. Admitted requests reach it with the RateLimit headers of their
// answer set; others never do. The handler must not use its http.ResponseWriter after it has returned.
//
// A client that leaves while it waits is noticed when net/http notices it: at once, if the request has no body.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := l.visits.Get().(*visit)
		l.serve(w, r, v, next)
		l.recycle(v) // unless something panicked
	})
}

// serve takes one request through the throttles.
func (l *Limiter) serve(w http.ResponseWriter, r *http.Request, v *visit, next http.Handler) {
	if !l.admit(w, r, v) {
		return
	}
	out := &writer{w: w}
	returned := false
	defer func() {
		v.pass.Settle(weir.Outcome{Time: l.clock.Now(), Done: true, Status: out.outcome(returned)})
	}()
	next.ServeHTTP(out, r)
	returned = true
}

// admit judges a request, and answers it unless it goes on.
func (l *Limiter) admit(w http.ResponseWriter, r *http.Request, v *visit) bool {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	if err := l.identify(r.Context(), r, peer.Addr(), &v.event); err != nil {
		doc := misfit(v, err)
		write(w, r, &doc)
		return false
	}
	// A context that ends while the request waits may be the program's own, so the client is told.
	_ = l.judge(r.Context(), v)
	now := v.event.Time
	if len(v.pass.Answer.Figures) > 0 {
		now = l.clock.Now()
		refusal.RateLimit(&refusal.Singles{Of: w.Header()}, v.pass.Answer.Figures, now)
	}
	if v.pass.Answer.Verdict == weir.Admit {
		return true
	}
	l.refuse(w, r, v, now)
	return false
}

// refuse answers a request that does not go on.
func (l *Limiter) refuse(w http.ResponseWriter, r *http.Request, v *visit, now time.Time) {
	doc := l.refusal(v, now)
	if doc.Status == http.StatusUnauthorized {
		for _, challenge := range l.accounts.Challenges() {
			w.Header().Add("WWW-Authenticate", challenge)
		}
	}
	write(w, r, &doc)
}

// write answers with a refusal: a page for people, a problem document for programs, a status for gRPC.
func write(w http.ResponseWriter, r *http.Request, doc *refusal.Refusal) {
	values := refusal.Singles{Of: w.Header()}
	var buffer [768]byte
	h := w.Header()
	doc.Head(&values)
	if refusal.IsGRPC(r.Header.Get("Content-Type")) {
		doc.HeadGRPC(&values, r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusOK)
		return
	}
	kind, body := "application/problem+json", buffer[:0]
	if pages.WantsPage(r.Header) {
		h.Set("Content-Security-Policy", pages.RefusalPolicy)
		look := new(pages.Options).Look(r)
		look.Head(h)
		kind, body = "text/html; charset=utf-8", pages.Refusal(doc, look)
	} else {
		body = append(doc.AppendJSON(body), '\n')
	}
	refusal.Content(&values, kind, len(body))
	w.WriteHeader(doc.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that has left needs no answer
	}
}

// A writer notes the status of an answer. It is not reused: a handler that writes too late must not reach the answer to
// somebody else.
type writer struct {
	w        http.ResponseWriter
	status   int
	hijacked bool
}

// outcome is the status of the answer. A handler that panics before it has written anything has failed.
func (w *writer) outcome(returned bool) int {
	switch {
	case w.status != 0 || w.hijacked:
		return w.status
	case returned:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

func (w *writer) Header() http.Header { return w.w.Header() }

func (w *writer) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.w.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.begin()
	return w.w.Write(p)
}

// begin notes the status of an answer whose body comes first.
func (w *writer) begin() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// ReadFrom lets net/http send files without copying them.
func (w *writer) ReadFrom(src io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.w, src)
}

// Flush is for handlers that ask for an http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.begin()
	return http.NewResponseController(w.w).Flush()
}

// Hijack is for handlers that ask for an http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.w).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.w }
