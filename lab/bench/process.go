//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/console"
	"weir/lab/machine"
)

// A running is a weir in a process of its own.
type running struct {
	*machine.Process
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
	p, err := machine.Start(machine.Task{Program: command[0], Args: append(command[1:], "serve", "-c", file), Log: log})
	if err != nil {
		return nil, err
	}
	r := &running{Process: p, control: console.NewClient(filepath.Join(folder, "weir.sock"))}
	err = p.Await(context.Background(), func() bool {
		s, err := r.control.Status(context.Background())
		if err != nil || len(s.Gates) != 1 {
			return false
		}
		r.address = s.Gates[0].Address
		return true
	})
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("weir: %w", err)
	}
	return r, nil
}

// onDisk makes a folder on a real disk, where fsync means something, that others may enter.
func onDisk() (string, error) {
	for _, parent := range []string{os.TempDir(), "/var/tmp"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(parent, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
			continue
		}
		folder, err := os.MkdirTemp(parent, "weir-bench")
		if err != nil {
			return "", err
		}
		return folder, os.Chmod(folder, 0o755)
	}
	return "", fmt.Errorf("there is no folder for temporary files on a disk (TMPDIR): %w", errors.ErrUnsupported)
}

// program finds a program of a peer; one that is not there is left out.
func program(name string) (string, error) {
	path, err := machine.Find(name)
	if err != nil {
		return "", fmt.Errorf("there is no program %s: %w", name, errors.ErrUnsupported)
	}
	return path, nil
}
