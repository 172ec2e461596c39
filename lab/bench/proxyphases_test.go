//go:build linux

package main

import (
	"math"
	"strings"
	"testing"
)

const someTraces = `File: weir
Type: cpu
Duration: 1s, Total samples = 100ms (10%)
-----------+-------------------------------------------------------
      40ms   internal/runtime/syscall/linux.Syscall6
             syscall.write
             net.(*conn).Write
             weir/upstream.(*conn).write
             weir/gate/httpgate.(*session).run
-----------+-------------------------------------------------------
      20ms   runtime.mallocgc
             weir/internal/http1.(*Head).Read
             weir/gate/httpgate.(*session).readHead
             weir/gate/httpgate.(*session).run
-----------+-------------------------------------------------------
      10ms   weir/throttle/quota.(*table).find
             weir/policy.(*Chain).Judge
             weir/gate/httpgate.(*exchange).judge
-----------+-------------------------------------------------------
      10ms   weir/internal/http1.(*Head).Read
             weir/upstream.(*conn).readHead
             weir/upstream.(*Pool).Send
-----------+-------------------------------------------------------
      12ms   runtime.futex
             runtime.findRunnable
-----------+-------------------------------------------------------
       8ms   runtime.scanobject
`

// TestReadTraces: the innermost function that a phase knows decides, the kernel's time is apart, and all adds up.
func TestReadTraces(t *testing.T) {
	want := []share{{"read and parse the request", 0.2}, {"ask the throttles, and account for it", 0.1},
		{"read and parse the upstream's answer", 0.1}, {scheduling, 0.08},
		{kernelToo + "write to the upstream", 0.4}, {waking, 0.12}}
	got := readTraces(strings.NewReader(someTraces))
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	sum := 0.0
	for i, s := range got {
		sum += s.share
		if s.phase != want[i].phase || math.Abs(s.share-want[i].share) > 1e-9 {
			t.Errorf("%d: %v, want %v", i, s, want[i])
		}
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the shares are %v together", sum)
	}
	if got := readTraces(strings.NewReader("nothing")); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
