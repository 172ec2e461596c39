package grpcserve

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/net/http2"
)

// A stream is one call. All fields belong to the connection's mu, except while running: message and ctx are then the
// worker's.
type stream struct {
	conn   *conn
	id     uint32
	since  int64 // the tick at which it began, or its answer began to wait
	method *Method
	health healthMethod

	sendWindow int64
	recvWindow int64
	length     int64 // announced; -1 for none
	got        int64 // bytes of content
	body       []byte
	held       int64 // bytes that the caller may not send again before body is free

	ended    bool // the caller has sent all
	replied  bool // the answer has begun
	watching bool // the health is told whenever it changes
	running  bool // a worker answers
	gone     bool // while running: nobody waits for the answer
	stalled  bool // rest and trailer wait for a window

	rest    []byte
	trailer []byte

	deadline time.Time    // zero for none
	late     *refusal     // is answered when all content has come
	ctx      *callContext // nil unless running
	message  []byte
	answer   []byte
}

// takeHead begins a call, or ends the content of one.
func (c *conn) takeHead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.head
	if h.stream%2 == 0 {
		return violation(http2.ErrCodeProtocol, "a caller has odd streams")
	}
	if s := c.streams[h.stream]; s != nil {
		return c.takeTrailers(s)
	}
	if h.stream <= c.last {
		if slices.Contains(c.closed[:], h.stream) { // it was on its way when the stream ended here
			return c.idleFrame()
		}
		return violation(http2.ErrCodeStreamClosed, "the stream has been closed")
	}
	c.last = h.stream
	if c.phase >= lastCalls {
		return c.idleFrame() // the caller knows that it is not answered
	}
	if c.active >= c.server.o.Streams {
		c.server.o.Bounded(ErrStreams.Name)
		return c.streamError(h.stream, http2.ErrCodeRefusedStream)
	}
	s := c.newStream(h.stream)
	s.ended, s.length = h.ends, h.length
	if h.size > h.most {
		c.server.o.Bounded(ErrHeaderList.Name)
		c.refuse(s, tooLargeHeaders)
		return nil
	}
	if h.malformed == nil && h.pseudo&pseudoNeeded != pseudoNeeded {
		h.malformed = errPseudoNone
	}
	if h.self || h.malformed != nil && !errors.Is(h.malformed, errTimeoutForm) || s.ended && s.length > 0 {
		return c.streamError(s.id, http2.ErrCodeProtocol)
	}
	c.open(s, h)
	return nil
}

// takeTrailers ends the content of a call: trailers of requests have no meaning in gRPC.
func (c *conn) takeTrailers(s *stream) error {
	h := &c.head
	switch {
	case s.ended:
		return c.streamError(s.id, http2.ErrCodeStreamClosed)
	case !h.ends || h.malformed != nil || h.pseudo != 0 || h.self || s.length >= 0 && s.got != s.length:
		return c.streamError(s.id, http2.ErrCodeProtocol)
	case h.size > h.most:
		c.server.o.Bounded(ErrHeaderList.Name)
		c.refuse(s, tooLargeHeaders)
		return nil
	}
	return c.ended(s, nil)
}

// takeData takes content.
func (c *conn) takeData(f *http2.DataFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, data, size := f.StreamID, f.Data(), int64(f.Length)
	if size > c.recvWindow {
		return violation(http2.ErrCodeFlowControl, "more content than the window of the connection allows")
	}
	c.recvWindow -= size
	s := c.streams[id]
	if s == nil {
		c.release(size)
		switch {
		case id%2 == 0 || id > c.last:
			return violation(http2.ErrCodeProtocol, "content on a stream that has not begun")
		case c.phase >= lastCalls || slices.Contains(c.closed[:], id): // it was on its way when the stream ended here
			return c.idleFrame()
		}
		return c.streamError(id, http2.ErrCodeStreamClosed)
	}
	if s.ended {
		c.release(size)
		return c.streamError(id, http2.ErrCodeStreamClosed)
	}
	if size > s.recvWindow {
		c.release(size)
		return c.streamError(id, http2.ErrCodeFlowControl)
	}
	s.recvWindow -= size
	s.got += int64(len(data))
	if s.length >= 0 && (s.got > s.length || f.StreamEnded() && s.got != s.length) {
		c.release(size)
		return c.streamError(id, http2.ErrCodeProtocol)
	}
	c.release(size - int64(len(data))) // padding
	if s.late != nil {
		c.release(int64(len(data)))
		data = nil
	}
	s.held += int64(len(data))
	if f.StreamEnded() {
		return c.ended(s, data)
	}
	if f.Length == 0 {
		if err := c.idleFrame(); err != nil {
			return err
		}
	}
	if s.late == nil {
		s.body = append(s.body, data...)
		if why := c.unfit(s.body, false); why != nil {
			c.refuse(s, why)
			return nil
		}
	}
	if s.recvWindow < streamWindow/2 {
		_ = c.framer.WriteWindowUpdate(id, uint32(streamWindow-s.recvWindow))
		s.recvWindow = streamWindow
	}
	return nil
}

// ended is called when all content has come. The last of it is in data, which is not kept.
func (c *conn) ended(s *stream, data []byte) error {
	s.ended = true
	if s.late != nil {
		c.refuse(s, s.late)
		return nil
	}
	body := data
	if len(s.body) > 0 {
		s.body = append(s.body, data...)
		body = s.body
	}
	if why := c.unfit(body, true); why != nil {
		c.refuse(s, why)
		return nil
	}
	return c.call(s, body[messageHead:])
}

// takeReset calls a call off.
func (c *conn) takeReset(f *http2.RSTStreamFrame) error {
	s := c.streams[f.StreamID]
	if s == nil {
		if f.StreamID%2 == 0 || f.StreamID > c.last {
			return violation(http2.ErrCodeProtocol, "a stream that has not begun is reset")
		}
		return c.idleFrame()
	}
	c.drop(s)
	return c.calledOff()
}

// streamError ends a stream because of what the caller did. It is as if the caller had called it off.
func (c *conn) streamError(id uint32, code http2.ErrCode) error {
	if s := c.streams[id]; s != nil {
		c.reset(s, code)
	} else {
		_ = c.framer.WriteRSTStream(id, code)
		c.remember(id)
	}
	if id%2 == 1 && id > c.last { // the framer has seen it first
		c.last = id
	}
	return c.calledOff()
}

// reset ends a stream, and tells the caller.
func (c *conn) reset(s *stream, code http2.ErrCode) {
	_ = c.framer.WriteRSTStream(s.id, code)
	c.remember(s.id)
	c.drop(s)
}

// remember notes a stream that was reset here: the caller may not know it yet.
func (c *conn) remember(id uint32) {
	c.closed[c.nclosed%len(c.closed)] = id
	c.nclosed++
}

// newStream returns a stream, and counts it.
func (c *conn) newStream(id uint32) *stream {
	var s *stream
	if n := len(c.free); n > 0 {
		s = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		s = new(stream)
	}
	*s = stream{conn: c, id: id, since: c.server.tick.Load(), sendWindow: c.initialWindow, recvWindow: streamWindow,
		body: s.body[:0], rest: s.rest[:0], answer: s.answer[:0]}
	c.streams[id] = s
	c.active++
	return s
}

// drop forgets a stream. A call under way is called off, and counts until its worker is done.
func (c *conn) drop(s *stream) {
	delete(c.streams, s.id)
	c.unstall(s)
	if s.running {
		s.gone = true
		s.ctx.cancel()
		return
	}
	c.recycle(s)
}

// What a stream keeps of its buffers when it is used again, and how many are kept.
const (
	keptBuffer  = 4 << 10
	keptStreams = 16
)

// recycle takes a stream back that nobody uses.
func (c *conn) recycle(s *stream) {
	c.release(s.held)
	s.held = 0
	c.active--
	if len(c.free) < keptStreams && cap(s.body)+cap(s.rest)+cap(s.answer) <= keptBuffer {
		c.free = append(c.free, s)
	}
	c.endIfDone()
}
