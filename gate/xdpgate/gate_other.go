//go:build !linux || !(amd64 || arm64)

package xdpgate

import (
	"net/netip"
	"runtime"
	"time"
)

// A Gate is the limiter of one network interface. On this system there is none: Attach says so.
type Gate struct{}

func unsupported() error {
	return &UnsupportedKernel{Have: runtime.GOOS + " on " + runtime.GOARCH, Need: "Linux on amd64 or arm64"}
}

// New checks the options; there is no gate to be had on this system.
func New(o Options, _ Env) (*Gate, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Gate{}, nil
}

// Attach returns an UnsupportedKernel.
func (*Gate) Attach() error { return unsupported() }

// Configure checks the options.
func (*Gate) Configure(o Options) error { return o.Validate() }

// Close does nothing.
func (*Gate) Close() error { return nil }

// SetShadow returns an UnsupportedKernel.
func (*Gate) SetShadow(bool) error { return unsupported() }

// Counters returns an UnsupportedKernel.
func (*Gate) Counters() (Counters, error) { return Counters{}, unsupported() }

// Limits returns an UnsupportedKernel.
func (*Gate) Limits() error { return unsupported() }

// Stats returns an UnsupportedKernel.
func (*Gate) Stats() (Stats, error) { return Stats{}, unsupported() }

// Ban returns an UnsupportedKernel.
func (*Gate) Ban(netip.Prefix, time.Time) error { return unsupported() }

// Unban returns an UnsupportedKernel.
func (*Gate) Unban(netip.Prefix) error { return unsupported() }

// Allow returns an UnsupportedKernel.
func (*Gate) Allow(netip.Prefix, time.Time) error { return unsupported() }

// Disallow returns an UnsupportedKernel.
func (*Gate) Disallow(netip.Prefix) error { return unsupported() }

// Bans returns an UnsupportedKernel.
func (*Gate) Bans() ([]Entry, error) { return nil, unsupported() }

// Allowed returns an UnsupportedKernel.
func (*Gate) Allowed() ([]Entry, error) { return nil, unsupported() }

// Detach returns an UnsupportedKernel.
func Detach(string, string) error { return unsupported() }

// RemoveDead returns an UnsupportedKernel.
func RemoveDead(string) ([]string, error) { return nil, unsupported() }

// List returns an UnsupportedKernel.
func List(string) ([]Pinned, error) { return nil, unsupported() }

// A Trial is for measurements on Linux.
type Trial struct{}

// NewTrial returns an UnsupportedKernel.
func NewTrial(Options, uint32) (*Trial, error) { return nil, unsupported() }

// Run returns an UnsupportedKernel.
func (*Trial) Run([]byte, uint32) (time.Duration, error) { return 0, unsupported() }

// Drain does nothing.
func (*Trial) Drain() {}

// Counters returns an UnsupportedKernel.
func (*Trial) Counters() (Counters, error) { return Counters{}, unsupported() }

// Close does nothing.
func (*Trial) Close() {}
