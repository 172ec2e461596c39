//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// goLimiters is Q1g: weir's limits beside other limiters for Go programs. They are measured by a program of a module of
// its own, lab/golimiters, since weir does not need their modules.
func goLimiters(t *trial) (figures []figure) {
	const folder = "lab/golimiters"
	temp := t.folder()
	for _, name := range []string{"go.mod", "go.sum"} {
		check(os.WriteFile(filepath.Join(temp, name), try(os.ReadFile(filepath.Join(folder, name))), 0o600))
	}
	inside := func(command string, args ...string) *exec.Cmd {
		// A copy of go.mod, which follows the versions in weir's: the file itself may be behind.
		args = append([]string{command, "-mod=mod", "-modfile=" + filepath.Join(temp, "go.mod")}, args...)
		cmd := exec.CommandContext(t.context(), "go", args...)
		cmd.Dir = folder
		return cmd
	}
	if out, err := inside("list", "-deps", ".").CombinedOutput(); err != nil {
		check(fmt.Errorf("the modules of the peers cannot be had: %s: %w", out, errors.ErrUnsupported))
	}
	program := filepath.Join(temp, "golimiters")
	output(inside("build", "-buildvcs=false", "-o", program, "."))
	args := []string{"-json"}
	if t.quick {
		args = append(args, "-events", "20000", "-keys", "10000")
	}
	args = append(args, "-rounds", pick(t, "25", "1"))
	var measured []struct {
		Case, Side    string
		Nanos, Allocs float64
	}
	raw := try(exec.CommandContext(t.context(), program, args...).Output())
	check(json.Unmarshal(raw, &measured))
	of := map[string]string{} // what the sides of a case got
	var cases []string
	for _, m := range measured {
		if of[m.Case] == "" {
			cases = append(cases, m.Case)
		} else {
			of[m.Case] += "; "
		}
		of[m.Case] += fmt.Sprintf("%s %.2f M/s, %.0f", m.Side, 1e3/m.Nanos, m.Allocs)
	}
	for _, c := range cases {
		figures = append(figures, figure{"limiters for Go programs, " + c + ": decisions/s, allocations",
			[]value{{text: of[c]}}, ""})
	}
	return figures
}
