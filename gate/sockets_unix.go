//go:build unix

package gate

import "syscall"

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
