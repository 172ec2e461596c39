//go:build !linux || !(amd64 || arm64)

package peer

import (
	"errors"
	"time"
)

// A Trial is for measurements on Linux.
type Trial struct{}

// New returns errors.ErrUnsupported.
func New(_, _ uint64, _ uint32) (*Trial, error) { return nil, errors.ErrUnsupported }

// Run returns errors.ErrUnsupported.
func (*Trial) Run([]byte, uint32) (time.Duration, error) { return 0, errors.ErrUnsupported }

// Close does nothing.
func (*Trial) Close() error { return nil }
