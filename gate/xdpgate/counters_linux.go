//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// readCounters sums the counters of all CPUs.
func readCounters(m *ebpf.Map) (c Counters, err error) {
	var all []objectTally
	if err := m.Lookup(uint32(0), &all); err != nil {
		return c, fmt.Errorf("cannot read the counters: %w", err)
	}
	// In the order of the program's outcomes.
	figures := [...]*uint64{&c.Passed, &c.Limited, &c.Banned, &c.Allowed, &c.Exempt, &c.Unwatched, &c.Malformed,
		&c.TooCostly, &c.Shadowed}
	for _, cpu := range all {
		for i, n := range cpu.Count {
			*figures[i] += n
		}
	}
	return c, nil
}
