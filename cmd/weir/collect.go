package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// roomyHeap is how large the heap may grow before garbage is collected, however little of it is in use.
const roomyHeap = 64 << 20

// mostPercent lets the runtime wait for roomyHeap before it first collects: that many percent of the 4 MiB that it
// takes for the least heap.
const mostPercent = roomyHeap / (4 << 20) * 100

// collectRarely makes garbage collections of a small heap rare. Otherwise a weir that keeps little in memory and
// answers many requests would collect dozens of times a second, and every hundredth request would wait for that. If
// GOGC is set, nothing is changed.
func collectRarely() {
	if os.Getenv("GOGC") != "" {
		return
	}
	c := &collection{percent: 100, sizes: []metrics.Sample{{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}}
	c.adjust()
}

// A collection is referenced by nothing, so that its finalizer runs at every garbage collection and adjusts the next
// one.
type collection struct {
	percent int              // as GOGC
	sizes   []metrics.Sample // which together make 100 percent, the live heap first
}

func (c *collection) adjust() {
	metrics.Read(c.sizes)
	live, whole := c.sizes[0].Value.Uint64(), uint64(0)
	for _, s := range c.sizes {
		whole += s.Value.Uint64()
	}
	percent := percentFor(live, whole)
	if d := percent - c.percent; max(d, -d) > c.percent/4 { // each change stops everything for a moment
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(c, (*collection).adjust)
}

// percentFor is how much garbage there may be, in percent of the whole that is scanned for it: as much as fits into
// roomyHeap, or two fifths of a heap that is larger. Stacks count as scanned, but they are not garbage: requests that
// wait have large ones, and what they left behind would otherwise take more memory than they do.
func percentFor(live, whole uint64) int {
	if whole == 0 {
		return 100
	}
	garbage := live / 5 * 2
	if live < roomyHeap {
		garbage = max(garbage, roomyHeap-live)
	}
	return int(min(max(garbage*100/whole, 10), mostPercent))
}
