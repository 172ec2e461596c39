//go:build linux && (amd64 || arm64)

package peer

import (
	"fmt"
	"time"
)

// A Trial is the program of the LRU hash, ready to be run on one packet again and again. It is attached to nothing.
type Trial struct{ objects objectObjects }

// New returns a trial in which each of so many made-up sources has a limit of rate per second and a burst.
func New(rate, burst uint64, sources uint32) (*Trial, error) {
	spec, err := loadObject()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{objectVarRate: rate, objectVarBurst: burst,
		objectVarBenchSources: sources} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, err
		}
	}
	t := &Trial{}
	if err := spec.LoadAndAssign(&t.objects, nil); err != nil {
		return nil, fmt.Errorf("the kernel did not take the program: %w", err)
	}
	return t, nil
}

// Run judges a packet so many times and returns how long one took.
func (t *Trial) Run(packet []byte, times uint32) (time.Duration, error) {
	_, each, err := t.objects.LruLimit.Benchmark(packet, int(times), nil)
	return each, err
}

// Close unloads the program.
func (t *Trial) Close() error { return t.objects.Close() }
