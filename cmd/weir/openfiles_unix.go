//go:build unix

package main

import "syscall"

// openFiles is how many files weir may have open, after Go has raised the soft limit.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Max)
}
