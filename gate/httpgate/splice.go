package httpgate

import (
	"net"
	"net/http"

	"weir/internal/splice"
	behind "weir/upstream"
)

// worthSplicing is how large a body should be that the system moves on. Copying a smaller one costs about the same.
const worthSplicing = 64 << 10

// splices reports whether the system may move the body on to the client, as nobody has to look at it or to change it:
// it goes to a socket and not into TLS, in one piece and not in chunks, and no meter counts it.
func (x *exchange) splices() bool {
	if x.metered || x.reply == nil || x.length < worthSplicing {
		return false
	}
	c := x.reply.session.conn
	_, ok := c.socket.(*net.TCPConn)
	return ok && c.tls == nil && x.reply.sized()
}

// sized reports whether the client was told the length of the body. It is not where the upstream's Connection names
// Content-Length.
func (w *reply) sized() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left >= 0 && !w.bodiless
}

// splice moves the next piece of the body on. splice.ErrNone means that it has to be copied, and io.EOF that it was the
// last one. Nothing is held while the piece has not come.
func (x *exchange) splice(from *behind.Body, c *copier) error {
	c.free()
	p, err := from.Take()
	if p == nil {
		return err
	}
	defer p.Free()
	c.copied += p.Len()
	if failed := x.sendPipe(p); failed != nil {
		return failed
	}
	return err
}

// sendPipe is sendAll for a piece that is in a pipe.
func (x *exchange) sendPipe(p *splice.Pipe) error {
	x.taking.Add(1)
	defer x.taking.Add(-1)
	if x.head != nil {
		x.writing.Lock()
		defer x.writing.Unlock()
	}
	n, err := x.reply.pass(p)
	if x.out.Add(int64(n)); err != nil {
		x.writeErr = err
	}
	return err
}

// pass is Write for a piece of a body of known length that is in a pipe. The piece is sent off at once.
func (w *reply) pass(p *splice.Pipe) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over || w.hijacked:
		return 0, errOver
	case w.left < int64(p.Len()):
		return 0, http.ErrContentLength
	case w.flush() != nil:
		return 0, w.err
	}
	n, w.err = w.session.conn.pass(p)
	w.left -= int64(n)
	return n, w.err
}
