//go:build linux && !(amd64 || arm64)

package main

import "errors"

// The kernel's program is compiled for amd64 and arm64 only.

func inKernel(*trial) []figure { panic(failure{errors.ErrUnsupported}) }

func sameAnswers(*trial) []figure { panic(failure{errors.ErrUnsupported}) }

func peopleUnderSYNs(*trial) []figure { panic(failure{errors.ErrUnsupported}) }
