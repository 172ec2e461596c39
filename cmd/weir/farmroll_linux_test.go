package main

import (
	"os/exec"
	"testing"

	"weir/farm/rolltest"
)

// TestFarmRolls: nodes behind a balancer are started anew, one after the other. No request fails for it, and no stamp
// is accepted twice.
func TestFarmRolls(t *testing.T) {
	t.Parallel()
	g := growFarm(t, false, true)
	rollUnderLoad(t, g, func(i int) {
		g.nodes[i].stop(t)
		g.start(i)
	})
}

// rollUnderLoad does something to each node of a farm behind a balancer while customers pay.
func rollUnderLoad(t *testing.T, g *grange, roll func(node int)) {
	t.Helper()
	load := &rolltest.Load{At: "127.0.0.1:8000", Dial: g.dialer()}
	var nodes []rolltest.Node
	var steps []func()
	for i := range g.nodes {
		nodes = append(nodes, rolltest.Node{Serves: g.Address(i) + ":8080", Console: g.Address(i) + ":9000"})
		steps = append(steps, func() {
			roll(i)
			g.settled(0, 1, 2)
		})
	}
	load.HAProxy(t, nodes, func(cmd *exec.Cmd) error { return g.Ends[g.clients()].Do(cmd.Start) })
	t.Logf("%d pages", load.Run(t, steps...))
}
