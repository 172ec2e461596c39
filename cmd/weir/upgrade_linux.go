package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	check := exec.CommandContext(ctx, s.binary, "check", file)
	check.WaitDelay = time.Second // what it has started may keep its output open
	said := new(opening)
	check.Stdout, check.Stderr = said, said
	err := check.Run()
	if err == nil && !strings.Contains(said.String(), file+": ok") {
		err = errors.New("it does not say that the configuration is ok: it is not weir")
	}
	if err != nil {
		return fmt.Errorf("%s check %s: %w: %s", s.binary, file, cmp.Or(ctx.Err(), err), said)
	}
	return nil
}

// maxOpening is how much of what the new binary says is kept.
const maxOpening = 16 << 10

// An opening is the beginning of what a program says.
type opening struct{ strings.Builder }

func (s *opening) Write(text []byte) (int, error) {
	s.Builder.Write(text[:min(len(text), maxOpening-s.Len())])
	return len(text), nil
}

// become ends this program. The new one has its process id, arguments and sockets. Where the binary has gone since it
// was asked, this one begins again, which is the better end of two.
func (s *succession) become(sockets string) error {
	env := append(os.Environ(), sockets)
	err := syscall.Exec(s.binary, os.Args, env)
	return errors.Join(err, syscall.Exec("/proc/self/exe", os.Args, env))
}

func (s *succession) String() string { return s.binary }
