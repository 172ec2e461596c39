//go:build linux && (amd64 || arm64)

package peer

import (
	"bytes"
	_ "embed"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

//go:embed object_bpfel.o
var object []byte

// A Trial is the program of the LRU hash, ready to be run on one packet again and again. It is attached to nothing.
type Trial struct {
	Limit *ebpf.Program `ebpf:"lru_limit"`
}

// New returns a trial in which each of so many made-up sources has a limit of rate per second and a burst.
func New(rate, burst uint64, sources uint32) (*Trial, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{"rate": rate, "burst": burst, "bench_sources": sources} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, err
		}
	}
	t := &Trial{}
	if err := spec.LoadAndAssign(t, nil); err != nil {
		return nil, fmt.Errorf("the kernel did not take the program: %w", err)
	}
	return t, nil
}

// Run judges a packet so many times and returns how long one took.
func (t *Trial) Run(packet []byte, times uint32) (time.Duration, error) {
	_, each, err := t.Limit.Benchmark(packet, int(times), nil)
	return each, err
}

// Close unloads the program.
func (t *Trial) Close() error { return t.Limit.Close() }
