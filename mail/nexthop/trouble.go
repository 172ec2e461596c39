package nexthop

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// A trouble is why a server could not be used. Nothing has happened to the message: another server may be tried.
type trouble struct {
	Result
	early bool // the server has not answered any command of this message
	busy  bool // the server is there, but wants no further connection
}

// trouble is one of our own, not a reply.
func (s *server) trouble(status, text string) *trouble {
	return &trouble{Result: Result{Outcome: Later, Status: status, Text: clip(text), Server: s.address}}
}

// lost is for a connection that has ended, or cannot be used any more.
func (c *conn) lost(doing string, err error) *trouble {
	c.broken = true
	status := statusConnection
	if errors.Is(err, errReply) {
		status = statusProtocol
	}
	return c.server.trouble(status, doing+": "+plainly(err))
}

// declined is for a server that does not want the connection. The message is not at fault, so a 5xx is no failure.
func (c *conn) declined(what string, r reply) *trouble {
	c.broken = true
	res := r.result(c.server.address)
	res.Outcome, res.Text = Later, clip(what+": "+res.Text)
	if !strings.HasPrefix(res.Status, "4.") {
		res.Status = "4" + res.Status[1:]
	}
	return &trouble{Result: res}
}

func (c *conn) insecure(what string) *trouble {
	c.broken = true
	return c.server.trouble(statusSecurity, what)
}

// plainly says in short what went wrong with a connection.
func plainly(err error) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the server hung up in the middle of a line"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return "the server hung up"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "the server took too long"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if call, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return call.Err.Error()
		}
		return op.Err.Error()
	}
	return err.Error()
}

func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), maxReplyText)], "?")
}
