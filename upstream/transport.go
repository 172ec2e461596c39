package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/http1"
)

// newTransport makes net/http's client for a server that our own client cannot speak to.
func newTransport(to target, o *Options, over *outward) *http.Transport {
	dialer := &net.Dialer{Timeout: o.Timeouts.Connect.Std(), KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy: nil, // variables of the environment do not count
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, to.network, to.address)
			if err != nil {
				return nil, &unreachedError{err}
			}
			return c, nil
		},
		TLSHandshakeTimeout:    o.Timeouts.Connect.Std(),
		MaxIdleConnsPerHost:    o.Idle,
		IdleConnTimeout:        o.IdleTime.Std(),
		DisableCompression:     true, // bodies are passed on as they are
		ResponseHeaderTimeout:  o.Timeouts.Response.Std(),
		ExpectContinueTimeout:  expectTime,
		MaxResponseHeaderBytes: maxHead,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
	t.Protocols = new(http.Protocols)
	if to.h2c() {
		t.Protocols.SetUnencryptedHTTP2(true)
	} else {
		t.Protocols.SetHTTP2(true)
		t.TLSClientConfig = over.config(to.domain)
	}
	return t
}

// An unreachedError means that no connection came about.
type unreachedError struct{ error }

func (e *unreachedError) Unwrap() error { return e.error }

// unreached reports whether a request cannot have reached the server.
func unreached(err error) bool {
	_, noConn := errors.AsType[*unreachedError](err)
	_, badCert := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	return noConn || badCert || noTLS
}

func (s *server) viaTransport(p *Pool, k *Call, by Caller) error {
	r := k.Request
	ctx := r.Context()
	var told *teller
	if by != nil {
		told = &teller{by: by}
		ctx = by.Waits()
		ctx = httptrace.WithClientTrace(ctx, told.trace(hasBody(r)))
	}
	out := r.WithContext(ctx)
	out.Header = k.Fields.Header() // of its own: net/http may read it after RoundTrip has returned
	out.URL = &url.URL{Scheme: s.to.scheme, Host: s.to.host, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	path := asSent(r.URL)
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	if path != r.URL.EscapedPath() && !strings.HasPrefix(s.to.base+path, "//") {
		out.URL.Opaque = s.to.base + path // net/http sends it as it is
	}
	if unescaped, err := url.PathUnescape(s.to.base + path); err == nil {
		out.URL.Path, out.URL.RawPath = unescaped, s.to.base+path
	} else {
		out.URL.Path = s.to.base + r.URL.Path
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // none is made up
	}
	var body *watchedBody
	if hasBody(r) {
		body = &watchedBody{src: r.Body}
		out.Body = body
		if len(out.Trailer) > 0 {
			out.ContentLength = -1
			out.Header.Del("Content-Length")
		}
	} else {
		out.Body = nil
	}
	res, err := s.via.RoundTrip(out)
	told.end()
	if err != nil {
		failure := &Error{Server: s.to.name, Why: FailBroken, Reached: !unreached(err), Err: err}
		if body != nil {
			failure.consumed = !body.callOff()
			if bodyErr := body.err.Load(); bodyErr != nil {
				return *bodyErr
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !failure.Reached {
			failure.Why = FailConnect
		} else if failure.Timeout() {
			failure.Why = FailTimeout
		}
		return failure
	}
	counted := &countedBody{ReadCloser: res.Body, s: s}
	if w, ok := res.Body.(io.Writer); ok && res.StatusCode == http.StatusSwitchingProtocols {
		k.Body = &countedTunnel{countedBody: counted, Writer: w}
	} else {
		k.Body = counted
	}
	a := &k.Answer
	a.Begin(http1.Answer)
	a.Status, a.Reason, a.Minor, a.Length = res.StatusCode, res.Status, res.ProtoMinor, res.ContentLength
	a.Fields.AddHeader(res.Header)
	k.Length, k.Trailer, k.Close, counted.call, counted.res = res.ContentLength, res.Trailer, res.Close, k, res
	return nil
}

// A teller passes on to a caller what net/http reports to a trace. net/http does that from other goroutines, which may
// be late. After the end of the request nothing is passed on, since the caller may serve another one by then.
type teller struct {
	by   Caller
	mu   sync.Mutex
	over bool
}

// end waits for a call that is under way, and allows no more. A nil teller has none.
func (t *teller) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
}

func (t *teller) sent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.by.Sent()
	}
}

func (t *teller) trace(body bool) *httptrace.ClientTrace {
	trace := &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { t.sent() },
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			if code == http.StatusContinue || t.over {
				return nil
			}
			var f http1.Fields
			f.AddHeader(http.Header(header))
			return t.by.Early(code, &f)
		},
	}
	if body {
		trace.WroteHeaders = t.sent
	}
	return trace
}

// States of a request's body. It belongs to whichever takes it first: a sender, or the next try.
const (
	bodyWaits = int32(iota)
	bodyBegun
	bodyCalledOff
)

// errCalledOff is the error of a body that belongs to another try.
var errCalledOff = errors.New("upstream: another try has the body")

// A watchedBody knows the state of a request's body.
type watchedBody struct {
	src   io.ReadCloser
	state atomic.Int32
	err   atomic.Pointer[error]
}

// callOff keeps the body from being read. It reports whether nothing was read.
func (b *watchedBody) callOff() bool { return b.state.CompareAndSwap(bodyWaits, bodyCalledOff) }

func (b *watchedBody) Read(p []byte) (int, error) {
	if !b.state.CompareAndSwap(bodyWaits, bodyBegun) && b.state.Load() == bodyCalledOff {
		return 0, errCalledOff
	}
	n, err := b.src.Read(p)
	if err != nil && err != io.EOF {
		b.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	if b.state.Load() == bodyCalledOff {
		return nil
	}
	return b.src.Close()
}

// A countedBody is the body of an answer under way.
type countedBody struct {
	io.ReadCloser
	s    *server
	once sync.Once
	call *Call
	res  *http.Response
}

// Read passes on what came. At the end the trailers are there, among them some that may not have been announced.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.call.Trailer = b.res.Trailer
	}
	return n, err
}

func (b *countedBody) Close() error {
	b.once.Do(func() { b.s.active.Add(-1) })
	return b.ReadCloser.Close()
}

type countedTunnel struct {
	*countedBody
	io.Writer
}
