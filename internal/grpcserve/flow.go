package grpcserve

import (
	"slices"

	"golang.org/x/net/http2"
)

// maxWindow is the largest window (RFC 9113, 6.9.1).
const maxWindow = 1<<31 - 1

// release lets the caller send as many bytes again on the connection. It is told when it comes to something.
func (c *conn) release(n int64) {
	if c.credit += n; c.credit < c.recvWindow/2 || c.over {
		return
	}
	_ = c.framer.WriteWindowUpdate(0, uint32(c.credit))
	c.recvWindow += c.credit
	c.credit = 0
}

// takeWindow lets answers go on.
func (c *conn) takeWindow(f *http2.WindowUpdateFrame) error {
	if err := c.idleFrame(); err != nil {
		return err
	}
	by := int64(f.Increment)
	if f.StreamID == 0 {
		if c.sendWindow += by; c.sendWindow > maxWindow {
			return violation(http2.ErrCodeFlowControl, "the window of the connection is too large")
		}
		c.sendStalled()
		return nil
	}
	s := c.streams[f.StreamID]
	if s == nil {
		if f.StreamID%2 == 0 || f.StreamID > c.last {
			return violation(http2.ErrCodeProtocol, "a window for a stream that has not begun")
		}
		return nil
	}
	if s.sendWindow += by; s.sendWindow > maxWindow {
		return c.streamError(s.id, http2.ErrCodeFlowControl)
	}
	if s.stalled {
		c.sendStalled()
	}
	return nil
}

// send sends as much of data as the windows allow, and returns the rest.
func (c *conn) send(s *stream, data []byte) []byte {
	for len(data) > 0 {
		n := min(int64(len(data)), c.sendWindow, s.sendWindow, frameSize)
		if n <= 0 {
			break
		}
		c.sendWindow -= n
		s.sendWindow -= n
		c.out = append(appendFrame(c.out, http2.FrameData, 0, s.id, int(n)), data[:n]...)
		data = data[n:]
	}
	return data
}

// stall keeps what is left of an answer until the windows allow for it. The bytes are copied.
func (c *conn) stall(s *stream, rest, trailer []byte) {
	if !s.stalled {
		s.stalled, s.since = true, c.server.tick.Load()
		c.stalled = append(c.stalled, s)
	}
	c.held += len(rest)
	s.rest = append(s.rest, rest...)
	s.trailer = trailer
}

// sendStalled goes on with answers that wait for a window, in the order in which they began to.
func (c *conn) sendStalled() {
	for _, s := range slices.Clone(c.stalled) {
		before := len(s.rest)
		rest := c.send(s, s.rest)
		if len(rest) < before {
			s.since = c.server.tick.Load()
		}
		c.held -= before - len(rest)
		if s.rest = s.rest[:copy(s.rest, rest)]; len(s.rest) > 0 {
			continue
		}
		trailer := s.trailer
		c.unstall(s)
		if trailer != nil {
			c.finish(s, trailer)
		}
	}
}

// unstall forgets what is left of an answer.
func (c *conn) unstall(s *stream) {
	if !s.stalled {
		return
	}
	c.held -= len(s.rest)
	s.stalled, s.rest, s.trailer = false, s.rest[:0], nil
	c.stalled = slices.DeleteFunc(c.stalled, func(other *stream) bool { return other == s })
}
