//go:build !unix

package console

import "syscall"

// keepOthersOut has nothing to do where files have no mode.
func keepOthersOut(syscall.RawConn) error { return nil }
