//go:build unix

package httpgate

import (
	"syscall"
	"testing"
)

// descriptors asks for as many open files as a test needs, and returns how many there may be.
func descriptors(t testing.TB, want uint64) uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if uint64(l.Cur) < want {
		l.Cur = min(want, l.Max)
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
		_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	}
	return l.Cur
}
