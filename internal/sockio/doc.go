// Package sockio reads and writes sockets without telling Go's scheduler.
//
// The scheduler is told of every system call, as it may take long: a call that lasts for more than 20 µs loses its
// processor to another thread, and has to get one back afterwards. A socket of package net never blocks, so nobody has
// to take the place of whoever asks it. But sending to a receiver on the same machine often lasts for more than 20 µs,
// because the kernel does the receiver's work as well. Where few connections are busy, most of the time then goes into
// threads that wake each other.
//
// Only Linux lets a program do that. The race detector has to see what passes between goroutines through sockets, so a
// program that it watches does without.
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
