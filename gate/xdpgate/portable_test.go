//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/bloom"
)

// TestEveryMachine: the program for each kind of machine is accepted by the verifier here and gives the same answers.
// What differs between them is the order of reads, which every machine keeps that keeps the stronger one.
func TestEveryMachine(t *testing.T) {
	needs.Unwatched(t)
	for ordered, name := range []string{"arm64", "x86"} {
		t.Run(name, func(t *testing.T) {
			p, err := newPlan(Options{Interface: "lo",
				Bloom: bloom.Options{Rate: weir.Rate{Count: 20, Per: time.Second}, Burst: 40, Attackers: 100}})
			if err != nil {
				t.Fatal(err)
			}
			p.settings.Ordered = uint32(ordered)
			sameFor(t, p, 30_000, 7)
		})
	}
}

// TestOlderKernel: where packets of several buffers are not known, the program does without them.
func TestOlderKernel(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	o := plain()
	o.Mode, o.Bloom.Burst = Bytes, 1_000_000
	p, err := newPlan(o)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := p.spec()
	if err != nil {
		t.Fatal(err)
	}
	c := p.settings
	if c.Frags = 0; spec.Programs[objectProgWeirLimit].Flags&unix.BPF_F_XDP_HAS_FRAGS == 0 {
		needs.Skip(t, "this is an older kernel")
	}
	spec.Programs[objectProgWeirLimit].Flags &^= unix.BPF_F_XDP_HAS_FRAGS
	if err := spec.Variables[objectVarConfig].Set(c); err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer coll.Close()
	for _, packet := range [][]byte{syn4(""), syn6("")} {
		if got, err := coll.Programs[objectProgWeirLimit].Run(&ebpf.RunOptions{Data: packet}); err != nil ||
			got != xdpPass {
			t.Errorf("answer %d, %v", got, err)
		}
	}
	if counted, err := readCounters(coll.Maps[objectMapCounters]); err != nil || counted.Passed != 2 {
		t.Errorf("counted %+v, %v", counted, err)
	}
}

// TestFigures: the largest figures that options allow are accepted by the verifier.
func TestFigures(t *testing.T) {
	needs.Unwatched(t)
	o := plain()
	o.Bloom.K, o.Bloom.V6 = bloom.MaxK, []int{128, 64, 48, 32}
	for _, o.Mode = range []Mode{SYN, Packets, Bytes} {
		o.Bloom.Rate.Count, o.Bloom.Burst = 1_000_000, bloom.MaxTokens*bloom.MaxK
		if o.Mode == Bytes {
			o.Bloom.Burst = 100_000_000
		}
		trial := trialOf(t, o)
		info, err := trial.objects.prog.Info()
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := info.VerifiedInstructions(); ok {
			// Kernels give up at a million, and older ones follow more ways.
			if t.Logf("mode %s: the verifier looks at %d instructions", o.Mode, n); n > 250_000 {
				t.Errorf("mode %s: %d instructions are too many for comfort", o.Mode, n)
			}
		}
		for _, packet := range [][]byte{syn4(""), syn6("")} {
			if got := trial.judge(t, packet); got != xdpPass {
				t.Errorf("mode %s: answer %d", o.Mode, got)
			}
		}
	}
}
