//go:build linux && (amd64 || arm64)

package peer

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"
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

// Counts returns how many packets passed and how many were dropped.
func (t *Trial) Counts() (passed, dropped uint64, err error) {
	var all []objectCounters
	if err := t.objects.Tally.Lookup(uint32(0), &all); err != nil {
		return 0, 0, err
	}
	for _, c := range all {
		passed, dropped = passed+c.Passed, dropped+c.Dropped
	}
	return passed, dropped, nil
}

// Fill gives a bucket to each of so many sources, so that a measurement starts with a map in use.
func (t *Trial) Fill(sources uint32, tokens uint64) error {
	for i := range sources {
		key := [4]byte{byte(0x10 + i>>16), byte(i >> 8), byte(i), 0}
		if err := t.objects.Buckets.Update(key, objectBucket{Tokens: tokens}, ebpf.UpdateAny); err != nil {
			return err
		}
	}
	return nil
}

// Close unloads the program.
func (t *Trial) Close() error { return t.objects.Close() }
