//go:build !unix

package httpgate

import "syscall"

// hangups watches nothing on this system. A client that leaves while its request waits is noticed when the turn has
// come and it is read from or written to; until then it keeps its place in line.
type hangups struct{}

func newHangups() *hangups { return &hangups{} }

func (*hangups) add(syscall.Conn, func()) (remove func()) { return nil }

func (*hangups) close() {}
