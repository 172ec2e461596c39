//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"time"

	"weir/throttle/bloom"
)

// A Trial is the program, ready to be run on one packet many times, for measurements. It is attached to nothing and
// pins nothing.
type Trial struct {
	plan    *plan
	objects *objects
	memory  *memory
}

// NewTrial returns a trial. With sources above 0, the source of each packet is replaced by one of so many made-up /24
// networks.
func NewTrial(o Options, sources uint32) (*Trial, error) {
	p, err := newPlan(o)
	if err != nil {
		return nil, err
	}
	p.settings.BenchSources = sources
	return p.trial()
}

func (p *plan) trial() (*Trial, error) {
	if err := checkSystem(); err != nil {
		return nil, err
	}
	k, err := p.load(nil)
	if err != nil {
		return nil, err
	}
	m, err := mapMemory(k)
	if err != nil {
		k.Close()
		return nil, err
	}
	now := kernelTime()
	if p.settings.TestClock != 0 {
		now = 0
	}
	for level := range p.shapes {
		m.renew(p, level, 0, now)
	}
	return &Trial{p, k, m}, nil
}

// Run judges a packet so many times and returns how long one took.
func (t *Trial) Run(packet []byte, times uint32) (time.Duration, error) {
	_, each, err := t.objects.prog.Benchmark(packet, int(times), nil)
	return each, err
}

// Drain empties every limiter, as a flood does.
func (t *Trial) Drain() {
	for level, s := range t.plan.shapes {
		words := t.memory.half(t.plan, level, 0)
		unit := uint64(kernelTime()-time.Duration(t.memory.state.Half[level][0].Origin)) / uint64(s.Unit)
		bloom.Overlay(s, bloom.Key(t.memory.state.Half[level][0].Key), words).Empty()
		for i := 7; i < len(words); i += 8 {
			words[i] |= unit << 48
		}
	}
}

// Counters returns what became of the packets.
func (t *Trial) Counters() (Counters, error) { return readCounters(t.objects.counters) }

// Close unloads the program.
func (t *Trial) Close() {
	t.memory.Close()
	t.objects.Close()
}
