package grpcserve

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// messageHead is the size of what stands before a message: whether it is compressed, and its length.
const messageHead = 5

// open begins a call when its headers have come.
func (c *conn) open(s *stream, h *head) {
	switch {
	case h.method != "POST":
		c.later(s, noPost)
		return
	case !isGRPC(h.content):
		c.later(s, noGRPC)
		return
	case h.malformed != nil:
		c.refuse(s, noTimeout)
		return
	case h.encoding != "" && h.encoding != "identity":
		c.refuse(s, noEncoding)
		return
	}
	s.method, s.health = c.server.methods[h.path], healthMethods[h.path]
	if s.method == nil && s.health == noHealth {
		c.refuse(s, c.server.unknown(h.path))
		return
	}
	if h.timed {
		s.deadline = time.Now().Add(h.timeout)
	}
	if s.ended { // there is no message
		c.refuse(s, noMessage)
	}
}

// later refuses what is not a call of gRPC when it has come to its end, as HTTP does.
func (c *conn) later(s *stream, why *refusal) {
	if s.late = why; s.ended {
		c.refuse(s, why)
	}
}

// isGRPC reports whether a content type is that of gRPC with protocol buffers.
func isGRPC(content string) bool {
	rest, ok := strings.CutPrefix(content, "application/grpc")
	return ok && (rest == "" || rest == "+proto" || rest[0] == ';' || strings.HasPrefix(rest, "+proto;"))
}

// maxPath is how much of the path of an unknown method its caller is told.
const maxPath = 200

// unknown is the refusal of a method that there is not.
func (s *Server) unknown(path string) *refusal {
	return &refusal{code: codes.Unimplemented, text: "there is no method " + path[:min(len(path), maxPath)]}
}

// unfit says why content is not one message, or nil. Before the end more may come.
func (c *conn) unfit(body []byte, all bool) *refusal {
	if len(body) >= messageHead {
		size := binary.BigEndian.Uint32(body[1:])
		switch {
		case int64(size) > int64(c.server.o.Message):
			c.server.o.Bounded(ErrMessage.Name)
			return &refusal{code: codes.ResourceExhausted, text: ErrMessage.Error()}
		case body[0] == 1:
			return compressed
		case body[0] != 0 || len(body)-messageHead > int(size):
			return noMessage
		case len(body)-messageHead == int(size):
			return nil
		}
	}
	if all {
		return noMessage
	}
	return nil
}

// call answers a call whose message has come. The connection is locked, and unlocked meanwhile.
func (c *conn) call(s *stream, message []byte) error {
	switch {
	case s.health != noHealth:
		c.tellHealth(s, message)
		return nil
	case s.method.Prompt != nil && s.method.Prompt():
		c.mu.Unlock()
		ctx := c.server.base
		if !s.deadline.IsZero() && !time.Now().Before(s.deadline) { // it is over already; otherwise it does not matter
			late, cancel := context.WithDeadline(ctx, s.deadline)
			defer cancel()
			ctx = late
		}
		answer, err := c.safely(ctx, s.method, message, c.answer)
		c.mu.Lock()
		if c.answer = answer; cap(answer) > 2*enough {
			c.answer = nil
		}
		if !c.over && c.streams[s.id] == s { // a look may have ended it meanwhile
			c.reply(s, answer, err)
		}
		return nil
	}
	if len(s.body) == 0 {
		s.body = append(s.body, message...)
		message = s.body
	}
	s.message, s.ctx, s.running = message, &callContext{deadline: s.deadline}, true
	c.server.workers.do(s)
	return nil
}

// work answers a call on a worker.
func (c *conn) work(s *stream) {
	answer, err := c.safely(s.ctx, s.method, s.message, s.answer)
	s.ctx.cancel()
	c.mu.Lock()
	s.running, s.answer = false, answer
	if s.gone || c.over {
		c.recycle(s)
	} else {
		c.reply(s, answer, err)
	}
	c.mu.Unlock()
	c.flush()
}

// safely answers a call. A panic becomes an error.
func (c *conn) safely(ctx context.Context, m *Method, message, to []byte) (answer []byte, err error) {
	defer func() {
		if what := recover(); what != nil {
			c.server.o.Panicked(what)
			answer, err = to[:0], status.Error(codes.Internal, errPanicked.Error())
		}
	}()
	answer, err = m.Answer(ctx, message, append(to[:0], make([]byte, messageHead)...))
	if err == nil && len(answer) < messageHead {
		panic("the answer does not begin with what it was given")
	}
	return answer, err
}
