//go:build unix

package main

import (
	"os"
	"syscall"
)

// keepOwner gives a file the owner of the one that it replaces, where that is allowed: weir's user may have to read it.
func keepOwner(name string, old os.FileInfo) {
	if was, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = os.Chown(name, int(was.Uid), int(was.Gid))
	}
}
