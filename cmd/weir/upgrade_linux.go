package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// upgradeSignal makes weir let its binary, as it is now, take its place.
const upgradeSignal = unix.SIGUSR2

// signalUpgrade sends the signal to the weir that listens on a control socket.
func signalUpgrade(control string) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: control})
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var wrong error
	if err := raw.Control(func(fd uintptr) {
		peer, wrong = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	switch {
	case wrong != nil:
		return wrong
	case peer.Pid <= 0:
		return fmt.Errorf("the weir at %s runs among other processes, such as in a container: send SIGUSR2 there", control)
	}
	return unix.Kill(int(peer.Pid), upgradeSignal)
}

// A succession is the program that is to take the place of this one.
type succession struct{ binary string }

// newSuccession notes where the binary is: once another has been put there, the system only knows that this one is
// gone.
func newSuccession() (*succession, error) {
	binary, err := exec.LookPath(os.Args[0])
	if err != nil { // whoever started it called it by another name
		binary, err = os.Executable()
	}
	if err == nil {
		binary, err = filepath.Abs(binary)
	}
	return &succession{binary}, err
}

// checkPatience is how long the new binary may take to check the configuration.
const checkPatience = time.Minute

// check asks the new binary whether it can serve the configuration: if it cannot, this one goes on.
func (s *succession) check(file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkPatience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, s.binary, "check", file).CombinedOutput(); err != nil {
		return fmt.Errorf("%s check %s: %w: %s", s.binary, file, cmp.Or(ctx.Err(), err), out)
	}
	return nil
}

// become ends this program. The new one has its process id, arguments and sockets.
func (s *succession) become(sockets string) error {
	return syscall.Exec(s.binary, os.Args, append(os.Environ(), sockets))
}

func (s *succession) String() string { return s.binary }
