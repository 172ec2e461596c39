//go:build linux

package main

import "fmt"

// Farms of processes in network namespaces, which only tests make, are measured by benchmarks.

// fifthRefused is Q5d: the document's case over five processes, four a second and five requests.
func fifthRefused(t *trial) (figures []figure) {
	b := t.benchmark("./cmd/weir", "FarmKeepsOneLimit", pick(t, "1000x", "10x"))
	for _, apart := range []string{"20ms", "3ms"} {
		refused := b.of("FarmKeepsOneLimit/" + apart)["refused-%"]
		got := beside(refused, "%.1f %%")
		if apart == "20ms" {
			got = least(100, refused, "%.1f %%")
		}
		figures = append(figures, figure{fmt.Sprintf("five processes, four a second and five requests, %s apart: rounds in "+
			"which the fifth was refused", apart), []value{got}, ""})
	}
	return figures
}

// farmBan is F1: what happens at one node of three is known at the others.
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

// farmBus is F2: messages between three nodes in one process.
func farmBus(t *trial) (figures []figure) {
	for _, c := range []struct{ name, what string }{{"Send", "a message of 128 bytes to the two other nodes"},
		{"Ask", "a question and its answer"}} {
		got := t.benchmark("./farm/nats", c.name, pick(t, "10000x", "10x")).of(c.name)
		figures = append(figures, figure{c.what + ": p50, p99",
			[]value{beside(got["p50-µs"], "%.0f µs"), beside(got["p99-µs"], "%.0f µs")}, ""})
	}
	return figures
}
