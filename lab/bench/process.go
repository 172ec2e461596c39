//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

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
func (t *trial) startWeir(folder, config string) *running {
	return t.runWeir(folder, config, os.Stderr, buildWeir(folder))
}

func buildWeir(folder string) (binary string) {
	binary = filepath.Join(folder, "weir")
	output(exec.Command("go", "build", "-o", binary, "weir/cmd/weir"))
	return binary
}

// runWeir runs a weir until the trial ends, and returns when its gate is open. The command may begin with another
// program that runs weir.
func (t *trial) runWeir(folder, config string, log io.Writer, command ...string) *running {
	file := filepath.Join(folder, "weir.yaml")
	check(os.WriteFile(file, []byte(config), 0o600))
	p := try(machine.Start(machine.Task{Program: command[0], Args: append(command[1:], "serve", "-c", file), Log: log}))
	t.cleanup(p.Stop)
	r := &running{Process: p, control: console.NewClient(filepath.Join(folder, "weir.sock"))}
	err := p.Await(context.Background(), func() bool {
		s, err := r.control.Status(context.Background())
		if err != nil || len(s.Gates) != 1 {
			return false
		}
		r.address = s.Gates[0].Address
		return true
	})
	if err != nil {
		check(fmt.Errorf("weir: %w", err))
	}
	return r
}

// subfolder makes a folder in another one.
func subfolder(folder, name string) string {
	path := filepath.Join(folder, name)
	check(os.Mkdir(path, 0o700))
	return path
}
