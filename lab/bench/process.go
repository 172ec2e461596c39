//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/console"
)

// A running is a weir in a process of its own.
type running struct {
	process *os.Process
	exited  chan struct{}
	control *console.Client
	address string
}

// startWeir builds weir and runs it with a configuration that has one gate and keeps its data in the folder.
func startWeir(folder, config string) (*running, error) {
	binary, err := buildWeir(folder)
	if err != nil {
		return nil, err
	}
	return runWeir(folder, config, os.Stderr, binary)
}

// buildWeir builds weir into a folder.
func buildWeir(folder string) (binary string, err error) {
	binary = filepath.Join(folder, "weir")
	if out, err := exec.Command("go", "build", "-o", binary, "weir/cmd/weir").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
}

// runWeir runs a weir, and returns when its gate is open. The command may have another program in front that runs it.
func runWeir(folder, config string, log io.Writer, command ...string) (*running, error) {
	file := filepath.Join(folder, "weir.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(command[0], append(command[1:], "serve", "-c", file)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &running{process: cmd.Process, exited: make(chan struct{}),
		control: console.NewClient(filepath.Join(folder, "weir.sock"))}
	go func() {
		cmd.Wait()
		close(r.exited)
	}()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if s, err := r.control.Status(context.Background()); err == nil && len(s.Gates) == 1 {
			r.address = s.Gates[0].Address
			return r, nil
		}
		select {
		case <-r.exited:
			return nil, errors.New("weir ended by itself")
		default:
		}
		if time.Now().After(deadline) {
			r.stop()
			return nil, errors.New("weir does not answer")
		}
	}
}

func (r *running) stop() {
	r.process.Signal(syscall.SIGTERM)
	select {
	case <-r.exited:
	case <-time.After(20 * time.Second):
		r.process.Kill()
		<-r.exited
	}
}

// kill ends weir at once, as a crash would.
func (r *running) kill() {
	r.process.Kill()
	<-r.exited
}

// onDisk makes a folder on a real disk, where fsync means something, that others may enter.
func onDisk() (string, error) {
	for _, place := range []string{os.TempDir(), "/var/tmp"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(place, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
			continue
		}
		folder, err := os.MkdirTemp(place, "weir-bench")
		if err != nil {
			return "", err
		}
		return folder, os.Chmod(folder, 0o755)
	}
	return "", fmt.Errorf("there is no folder for temporary files on a disk (TMPDIR): %w", errors.ErrUnsupported)
}

// freeAddress is one that nobody listens on, of an address of this machine.
func freeAddress(host string) (string, error) {
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// program finds a program of a peer; one that is not there is left out.
func program(name string) (string, error) {
	for _, at := range []string{name, "/usr/sbin/" + name} { // where programs of administrators are
		if path, err := exec.LookPath(at); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no program %s: %w", name, errors.ErrUnsupported)
}
