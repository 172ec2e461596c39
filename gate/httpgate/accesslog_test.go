package httpgate

import (
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// A flood of refusals does not fill the disk: the first ones of each rule are told in full, the rest once a second.
func TestRefusalsAreSummedUp(t *testing.T) {
	g := start(t, Options{Upstream: to(echo(t).URL)}, newThrottle(overLimit))
	const second = 50
	for range 2 {
		for range second {
			if res, _ := g.do(g.request("GET", "/", nil)); res.StatusCode != 429 {
				t.Fatal(res.Status)
			}
		}
		needs.Wait(t, "all are over", func() bool { return g.UnderWay.Load() == 0 })
		g.clock.Advance(time.Second)
		needs.Wait(t, "summed up", func() bool { return !g.summing.Load() })
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := g.log.String()
	if n := strings.Count(text, `"msg":"request"`); n != 2*maxRefused {
		t.Errorf("%d lines in full", n)
	}
	if n := strings.Count(text, `"msg":"more requests","of":"t0/per-second","requests":40`); n != 2 {
		t.Errorf("%d summaries in %s", n, text[max(0, len(text)-500):])
	}
}
