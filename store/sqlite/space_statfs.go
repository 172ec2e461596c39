//go:build linux || darwin || freebsd || dragonfly

package sqlite

import "syscall"

// diskSpace is how many bytes weir may still write to the file system of a folder, and how many it has.
func diskSpace(folder string) (free, all int64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(folder, &s) != nil || s.Blocks == 0 { // some have no size
		return 0, 0, false
	}
	return max(int64(s.Bavail), 0) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), true
}
