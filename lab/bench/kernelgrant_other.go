//go:build linux && !(amd64 || arm64)

package main

import "errors"

// The kernel's program is made for amd64 and arm64.

func inKernel(options) ([]figure, error) { return nil, errors.ErrUnsupported }

func sameAnswers(options) ([]figure, error) { return nil, errors.ErrUnsupported }

func peopleUnderSYNs(options) ([]figure, error) { return nil, errors.ErrUnsupported }
