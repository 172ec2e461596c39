//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// upgradeSignal is no signal: it never comes.
const upgradeSignal = syscall.Signal(-1)

var errNoUpgrade = errors.New("weir upgrade works on Linux only: restart weir instead")

func signalUpgrade(string) error { return errNoUpgrade }

type succession struct{}

func newSuccession() (*succession, error) { return &succession{}, nil }

func (*succession) check(string) error  { return errNoUpgrade }
func (*succession) become(string) error { return errNoUpgrade }

func (*succession) String() string { return "" }
