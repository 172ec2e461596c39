// Package sockio reads and writes sockets without telling Go's scheduler.
//
// The scheduler is told of every system call, because some take long: a call that lasts for more than 20 µs loses its
// processor to another thread, and has to get one back afterwards. Sockets of package net never block, so nobody
// needs to take their place. But sending to a receiver on the same machine often lasts for more than 20 µs, as the
// kernel does the receiver's work in the same call. Where few connections are busy, threads then wake each other all
// the time.
//
// This works on Linux. On other systems, and under the race detector, which has to see what passes between goroutines
// through sockets, connections stay as they are.
package sockio

import (
	"net"
	"syscall"
)

// A Socket is a *net.TCPConn or a *net.UnixConn.
type Socket interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// Of returns a connection that does what c does, and reads and writes as this package does. It returns c itself if that
// is not a Socket, such as a connection inside TLS, and where there is no such way.
func Of(c net.Conn) net.Conn {
	switch s := c.(type) {
	case *net.TCPConn:
		return of(s)
	case *net.UnixConn:
		return of(s)
	}
	return c
}
