package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/identify"
)

// An answer is a response and its body, in one piece of memory.
type answer struct {
	response http.Response
	body     Body
}

func (c *conn) answer(r *http.Request, h *head) (*http.Response, error) {
	if c.sender != nil {
		c.sender.answerCame()
		c.sender.goOn() // with an answer, 100 Continue will not come
	}
	a := new(answer)
	res := &a.response
	fillResponse(res, r, h)
	b := &a.body
	b.c, b.res, b.close = c, res, h.close || r.Close
	res.Body = b
	empty := r.Method == http.MethodHead || h.status == http.StatusNoContent || h.status == http.StatusNotModified
	switch {
	case empty:
		// A server that does not know better may send a body all the same.
		b.close = b.close || h.status == http.StatusNoContent && (h.chunked || h.length > 0)
		if h.status == http.StatusNoContent {
			res.ContentLength = 0
		}
	case h.chunked:
		b.kind = chunkedBody
		if names := h.header["Trailer"]; names != nil {
			announce(res, names)
		}
	case h.length >= 0:
		b.left = h.length
	default:
		b.kind, b.close = untilClose, true
		c.relax()
	}
	res.Close = b.close
	if b.kind == sizedBody && b.left == 0 {
		b.finish(true)
	}
	return res, nil
}

func fillResponse(res *http.Response, r *http.Request, h *head) {
	*res = http.Response{Status: h.reason, StatusCode: h.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: h.minor,
		Header: h.header, ContentLength: h.length, Request: r}
	if h.minor == 0 {
		res.Proto = "HTTP/1.0"
	}
	if h.chunked {
		res.TransferEncoding = chunkedCoding
	}
}

var chunkedCoding = []string{"chunked"}

// announce moves the names of trailers from the header to res.Trailer.
func announce(res *http.Response, lists []string) {
	delete(res.Header, "Trailer")
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = canonical(strings.Trim(name, " \t")); identify.IsToken(name) && !forbiddenTrailer(name) {
				if res.Trailer == nil {
					res.Trailer = http.Header{}
				}
				res.Trailer[name] = nil
			}
		}
	}
}

// switched returns the connection itself, after 101.
func (c *conn) switched(r *http.Request, h *head) (*http.Response, error) {
	if len(r.Header["Upgrade"]) == 0 || !h.upgrade || h.chunked || h.length > 0 {
		return nil, malformedError("an upgrade that nobody asked for")
	}
	if c.sender != nil {
		c.sender.answerCame()
		c.sender.goOn()
		if !c.sender.settle() {
			return nil, malformedError("an upgrade before the end of the request")
		}
	}
	c.relax()
	rest := append([]byte(nil), c.in...)
	if !c.end() {
		return nil, context.Cause(c.ctx)
	}
	_ = c.nc.SetDeadline(time.Time{})
	res := new(http.Response)
	fillResponse(res, r, h)
	res.ContentLength = 0
	res.Body = &tunnel{Conn: c.nc, server: c.server, rest: rest}
	return res, nil
}

// A tunnel is a connection after an upgrade.
type tunnel struct {
	net.Conn
	server *server
	rest   []byte // came with the answer
	once   sync.Once
}

func (t *tunnel) Read(p []byte) (int, error) {
	if len(t.rest) > 0 {
		n := copy(p, t.rest)
		t.rest = t.rest[n:]
		return n, nil
	}
	return t.Conn.Read(p)
}

// CloseWrite tells the server that there is no more.
func (t *tunnel) CloseWrite() error {
	if c, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

func (t *tunnel) Close() error {
	t.once.Do(func() { t.server.active.Add(-1) })
	return t.Conn.Close()
}

var _ io.ReadWriteCloser = (*tunnel)(nil)
