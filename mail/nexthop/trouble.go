package nexthop

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// A trouble is why a server could not be used. Nothing has happened to the mail: another server may be tried.
type trouble struct {
	Result
	early bool // the server has not answered to anything of this mail
	busy  bool // the server is there, but wants no further connection
}

// lost tells that a connection has ended, or cannot be used any more.
func (c *conn) lost(doing string, err error) *trouble {
	c.broken = true
	status := statusConnection
	if errors.Is(err, errReply) {
		status = statusProtocol
	}
	return &trouble{Result: Result{Outcome: Later, Status: status, Text: clip(doing + ": " + plainly(err)),
		Server: c.server.address}}
}

// declined tells that a server does not want the connection. That is never the mail's fault: a 5xx is no failure.
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
	return &trouble{Result: Result{Outcome: Later, Status: statusSecurity, Text: clip(what), Server: c.server.address}}
}

func (s *server) unreached(err error) *trouble {
	return &trouble{Result: Result{Outcome: Later, Status: statusNoAnswer, Text: clip("no connection: " + plainly(err)),
		Server: s.address}}
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
