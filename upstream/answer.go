package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/internal/http1"
)

// Bounds on what a server may say before a body, and after it.
const (
	maxHead    = 256 << 10
	maxFields  = 1000
	maxTrailer = 64 << 10
	maxEarly   = 100 // informational answers to one request
)

// errHeadTooLarge is for answers whose headers are beyond a bound.
var errHeadTooLarge = errors.New("the headers of the answer are too large")

// answered makes ready to read the body of the answer whose head has come.
func (c *conn) answered(k *Call) {
	if c.sender != nil {
		c.sender.answerCame()
		c.sender.goOn() // with an answer, 100 Continue will not come
	}
	r, a, b := k.Request, &k.Answer, &k.body
	k.body = Body{c: c, call: k, close: a.Close || a.Minor == 0 && !a.KeepAlive || r.Close}
	k.Body, k.Length = b, a.Length
	empty := r.Method == http.MethodHead || a.Status == http.StatusNoContent || a.Status == http.StatusNotModified
	switch {
	case empty:
		// A server that does not know better may send a body all the same.
		b.close = b.close || a.Status == http.StatusNoContent && (a.Chunked || a.Length > 0)
		if a.Status == http.StatusNoContent {
			k.Length = 0
		}
	case a.Chunked:
		b.kind = chunkedBody
		if a.Fields.Has("Trailer") {
			k.announce()
		}
	case a.Length >= 0:
		b.left = a.Length
	default:
		b.kind, b.close = untilClose, true
		c.relax()
	}
	if k.Close = b.close; b.kind == sizedBody && b.left == 0 {
		b.finish(true)
	}
}

// announce moves the names of trailers from the header to Trailer.
func (k *Call) announce() {
	for _, list := range k.Answer.Fields.Values("Trailer") {
		for name := range strings.SplitSeq(list, ",") {
			name = http1.Canonical(strings.Trim(name, " \t"))
			if http1.IsToken(name) && !forbiddenTrailer(name) {
				if k.Trailer == nil {
					k.Trailer = http.Header{}
				}
				k.Trailer[name] = nil
			}
		}
	}
	k.Answer.Fields.Del("Trailer")
}

// switched makes the connection itself the body, after 101.
func (c *conn) switched(k *Call) error {
	if a := &k.Answer; !upgrades(k) || !a.Upgrade || a.Chunked || a.Length > 0 {
		return http1.Mistake("an upgrade that nobody asked for")
	}
	if c.sender != nil {
		c.sender.answerCame()
		c.sender.goOn()
		if !c.sender.settle() {
			return http1.Mistake("an upgrade before the end of the request")
		}
	}
	c.relax()
	rest := append([]byte(nil), c.in...)
	if !c.end() {
		return context.Cause(c.ctx)
	}
	_ = c.nc.SetDeadline(time.Time{})
	c.server.watch.remove(c)
	k.Length, k.Body = 0, &tunnel{Conn: c.nc, server: c.server, rest: rest}
	return nil
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
