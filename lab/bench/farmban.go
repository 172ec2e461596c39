//go:build linux

package main

import "fmt"

// farmBan is F1: what happens at one node of three is known at the others. Only tests make network namespaces, so that
// benchmarks of cmd/weir measure it.
func farmBan(t *trial) []figure {
	ban := t.benchmark("./cmd/weir", "FarmBan", pick(t, "100x", "1x")).of("FarmBan")
	wake := t.benchmark("./cmd/weir", "FarmWakesUp", "1x").of("FarmWakesUp")
	return []figure{
		{"from `weir ban add` at one node until another refuses the client (the command itself included): p99",
			[]value{most(100, ban["p99-ms"], "%.1f ms")}, fmt.Sprintf("p50 %.1f ms", ban["p50-ms"])},
		{"… a node that was stopped for 10 s and woken knows what happened meanwhile after",
			[]value{most(2000, wake["most-ms"], "%.0f ms")}, ""},
	}
}
