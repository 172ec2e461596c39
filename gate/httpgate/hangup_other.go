//go:build !linux

package httpgate

import "syscall"

// hangups watches nothing on this system. A client that leaves while its request waits with the body unread is noticed
// when the turn has come and the body is read; until then it keeps its place in line.
type hangups struct{}

// watchesHangups says that there is no such watch on this system.
const watchesHangups = false

func newHangups() *hangups { return &hangups{} }

func (*hangups) add(syscall.Conn, func()) (remove func()) { return nil }

func (*hangups) close() {}
