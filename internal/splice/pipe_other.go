//go:build !linux

package splice

import "syscall"

// A Pipe does not exist on this system.
type Pipe struct{}

// Take always returns ErrNone.
func Take(syscall.RawConn, int64) (*Pipe, error) { return nil, ErrNone }

// Len is how many bytes it has.
func (*Pipe) Len() int { return 0 }

// Pass moves nothing.
func (*Pipe) Pass(syscall.RawConn) (int, error) { return 0, ErrNone }

// Free does nothing.
func (*Pipe) Free() {}
