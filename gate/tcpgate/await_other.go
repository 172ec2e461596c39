//go:build !linux

package tcpgate

import (
	"errors"
	"syscall"
)

// awaitReadable does not wait on this system: whoever reads waits, with the buffer in hand.
func awaitReadable(syscall.Conn) (wait func() error) { return func() error { return nil } }

// awaitLeaving cannot tell on this system. A client that leaves while it waits is noticed when its turn has come.
func awaitLeaving(syscall.Conn) (wait func() error) {
	return func() error { return errors.ErrUnsupported }
}

// dead cannot tell on this system; after a failure the connection is better cut than left.
func dead(syscall.Conn) bool { return true }
