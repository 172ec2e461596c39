//go:build unix

package gate

import (
	"os"

	"golang.org/x/sys/unix"
)

func closeOnExec(fd int) { unix.CloseOnExec(fd) }

// keepOnExec lets a program that takes the place of this one have a file.
func keepOnExec(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0)
	return err
}
