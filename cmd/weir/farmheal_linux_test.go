package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// TestFarmHeals: a node that is cut off closes its connections to the others while it is cut off, and makes them anew
// at once when it is back. Connections that were kept would go on when TCP tries again: after a cut of several seconds
// that is several seconds later. TCP waits twice as long each time, so its tries say how long a connection was kept.
func TestFarmHeals(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	nftables(t)
	c := growQuotas(t, 3, `{name: p, limit: 30, period: 365d, on_loss: share}`)
	const cut, tooMany = 2, 6 // the sixth is after 13 s; a connection is closed after 3 s
	c.eventually("it has connections", func() bool { open, _ := c.routes(cut); return open > 0 })
	c.part(cut, true)
	c.eventually("it has closed them", func() bool {
		open, tries := c.routes(cut)
		if tries >= tooMany {
			t.Fatalf("a connection is kept, though TCP tried %d times", tries)
		}
		return open == 0
	})
	c.part(cut, false)
	healed := time.Now()
	c.settled(0, 1, 2)
	t.Logf("the nodes hear each other after %s", time.Since(healed))
}

// routes is how many connections to other nodes, or from them, a node has open, and how often TCP has sent something on
// one of them again, in vain.
func (c *crop) routes(i int) (open int, tries uint64) {
	c.t.Helper()
	const port, established = ":1CE8", "01" // 7400
	if err := c.Ends[i].Do(func() error {
		for _, table := range []string{"tcp", "tcp6"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + table)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(text)) {
				f := strings.Fields(line) // number, local address, remote address, state, queues, timer, tries
				if f[3] == established && (strings.HasSuffix(f[1], port) || strings.HasSuffix(f[2], port)) {
					again, err := strconv.ParseUint(f[6], 16, 64)
					if err != nil {
						return err
					}
					open, tries = open+1, max(tries, again)
				}
			}
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	return open, tries
}
