package admission

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

// TestFarmSharesTheCapacityByDemand: whatever reaches which node, all nodes together let in what one would.
func TestFarmSharesTheCapacityByDemand(t *testing.T) {
	t.Parallel()
	const places, all = 30, 5 * time.Second
	for _, offered := range [][]float64{{600, 0, 0}, {200, 200, 200}, {0, 550, 55}, {300, 300, 0}, {60, 60, 60},
		{240, 0, 30}} {
		t.Run(fmt.Sprint(offered), func(t *testing.T) {
			r := newFarmRig(t, 1, 3, quick, Options{Concurrent: places})
			idle, total := 0, 0.0
			for i, rate := range offered {
				r.offer(r.nodes[i], rate)
				if total += rate; rate == 0 {
					idle++
				}
			}
			r.Run(2 * time.Second)
			r.clear()
			r.Run(all)
			if r.peak > places+1 {
				t.Errorf("%d at once: %s", r.peak, r)
			}
			want := min(float64(places-idle), total*r.takes.Seconds()) * 0.9
			if got := r.mean(all); got < want {
				t.Errorf("%.1f at once on average, want %.1f: %s", got, want, r)
			}
			served := 0
			for _, n := range r.nodes {
				served += n.served
			}
			for i, n := range r.nodes {
				got, want := float64(n.served)/float64(served), offered[i]/total
				if got < want*0.75 || got > want*1.25+0.02 {
					t.Errorf("%s served %.3f of all, and %.3f of all came there: %s", n.Name, got, want, r)
				}
			}
		})
	}
}

// within fails the test if more were at the upstream than may be.
func (r *farmRig) within(places int) {
	r.t.Helper()
	if r.peak > places {
		r.t.Errorf("%d at once, want at most %d: %s", r.peak, places, r)
	}
}

// TestFarmDemandMoves: what reached one node reaches another at once. The places follow as fast as they come free.
func TestFarmDemandMoves(t *testing.T) {
	t.Parallel()
	for more, network := range map[int]farmtest.Network{1: quick, 3: lossy} {
		const places = 30
		r := newFarmRig(t, 1, 4, network, Options{Concurrent: places})
		to := 0
		r.Every(time.Second/900, func() bool { r.nodes[to].ask(); return true })
		r.Run(2 * time.Second)
		r.clear()
		for range 6 {
			to = (to + 1) % 4
			r.Run(time.Second)
		}
		r.within(places + more)
		if mean := r.mean(6 * time.Second); mean < places-2 {
			t.Errorf("%.1f at once: %s", mean, r)
		}
	}
}

// TestFarmPartition: a node that hears nobody has its Nth of the places, those who hear each other the rest.
func TestFarmPartition(t *testing.T) {
	t.Parallel()
	const places = 30
	r := newFarmRig(t, 1, 3, quick, Options{Concurrent: places})
	for _, n := range r.nodes {
		r.offer(n, 200)
	}
	r.Run(2 * time.Second)
	a, b, c := r.nodes[0], r.nodes[1], r.nodes[2]
	r.Cut([]*farmtest.SimNode{a.SimNode}, []*farmtest.SimNode{b.SimNode, c.SimNode})
	r.clear()
	r.Run(2 * time.Second)
	r.within(places + 1)
	if got := a.part(); got != places/3 {
		t.Errorf("%d places for one that hears nobody", got)
	}
	if got := b.part() + c.part(); got > places*2/3 || got < places*2/3-2 { // less while they move between the two
		t.Errorf("%d places for two of three", got)
	}
	r.Heal()
	r.Run(2 * time.Second)
	r.within(places + 1)
	if got := a.part() + b.part() + c.part(); got > places || got < places-2 {
		t.Errorf("%d places after healing: %s", got, r)
	}
}

// TestFarmNodeLost: what a dead node had stays reserved, as nobody can tell it from one that is cut off, until it is
// back.
func TestFarmNodeLost(t *testing.T) {
	t.Parallel()
	const places = 30
	r := newFarmRig(t, 1, 3, quick, Options{Concurrent: places})
	a, b, c := r.nodes[0], r.nodes[1], r.nodes[2]
	r.offer(a, 400)
	r.offer(c, 400)
	r.Run(2 * time.Second)
	r.kill(c)
	r.Run(1500 * time.Millisecond)
	r.clear()
	r.Run(2 * time.Second)
	if got := a.part() + b.part(); got > places*2/3 || got < places*2/3-2 {
		t.Errorf("%d places for two of three: %s", got, r)
	}
	if mean := r.mean(2 * time.Second); mean < places*2/3-2 {
		t.Errorf("%.1f at once: %s", mean, r)
	}
	r.start(c)
	r.Run(2 * time.Second)
	r.within(places + 1)
	if got := a.part() + b.part() + c.part(); got > places || got < places-2 {
		t.Errorf("%d places after it is back: %s", got, r)
	}
}

// TestFarmStandsStill: nodes with nothing to do say nothing.
func TestFarmStandsStill(t *testing.T) {
	t.Parallel()
	r := newFarmRig(t, 1, 3, farmtest.Network{}, Options{Concurrent: 30})
	r.nodes[0].ask()
	r.Run(5 * time.Second)
	sends := 0
	for _, n := range r.nodes {
		send := n.l.farm.Send
		n.l.farm.Send = func(msg []byte) error { sends++; return send(msg) }
	}
	r.Run(time.Minute)
	if sends > 0 {
		t.Errorf("%d messages in a minute in which nothing happened", sends)
	}
	r.nodes[0].ask()
	r.Run(10 * time.Second)
	if sends == 0 || sends > 40 {
		t.Errorf("%d messages about one request", sends)
	}
}

// TestFarmLoad: all nodes ask for the same price, which is that of the farm.
func TestFarmLoad(t *testing.T) {
	t.Parallel()
	r := newFarmRig(t, 1, 3, quick, Options{Concurrent: 30})
	r.offer(r.nodes[0], 150)
	r.offer(r.nodes[1], 75)
	r.Run(3 * time.Second)
	var shares []weir.Share
	for _, n := range r.nodes {
		share, _ := n.l.Load(n.FarmTime())
		if shares = append(shares, share); share < 0.6 || share > 0.9 {
			t.Errorf("%s: a load of %s, and 75 %% is offered: %s", n.Name, share, r)
		}
	}
	if spread := slices.Max(shares) - slices.Min(shares); spread > 0.1 {
		t.Errorf("loads %v", shares)
	}
	r.offer(r.nodes[0], 400)
	r.Run(3 * time.Second)
	for _, n := range r.nodes {
		if share, _ := n.l.Load(n.FarmTime()); share < 1.5 {
			t.Errorf("%s: a load of %s, and 208 %% is offered: %s", n.Name, share, r)
		}
	}
}

func TestDivide(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 200).Draw(t, "places")
		wants := rapid.SliceOfN(rapid.Float64Range(0, 500), 1, 64).Draw(t, "wants")
		var claims []claim
		total := 0.0
		for _, w := range wants {
			claims = append(claims, claim{wants: w, used: rapid.IntRange(0, 50).Draw(t, "used")})
			total += w
		}
		divide(places, claims)
		sum, used, may := 0, 0, 0
		for i, c := range claims {
			sum += c.part
			if used += c.used; c.part < 1 {
				t.Fatalf("%d has %d places", i, c.part)
			}
			g := grant(i, claims)
			if may += max(g, c.used); g > c.part || g < 1 || g < min(c.used, c.part) {
				t.Fatalf("%d may have %d of %d, and has %d", i, g, c.part, c.used)
			}
			part, all := float64(c.part), float64(places)
			if exact := c.wants * all / total; total > all && part > max(1, exact)+1 {
				t.Fatalf("%d has %d of %d places for %.1f of %.1f", i, c.part, places, c.wants, total)
			}
			if total <= all && len(claims) < places && part < math.Floor(c.wants)-float64(len(claims)) {
				t.Fatalf("%d has %d places and wants %.1f, of %.1f", i, c.part, c.wants, total)
			}
		}
		if sum != max(places, len(claims)) {
			t.Fatalf("%d of %d places are divided among %d", sum, places, len(claims))
		}
		if may > max(places, used)+len(claims) { // each may have one
			t.Fatalf("%d places in all, of %d", may, places)
		}
	})
	divide(5, nil) // nobody
	few := append([]claim{{wants: 30}}, slices.Repeat([]claim{{wants: 4.9}}, 6)...)
	if divide(10, few); few[0].part != 4 {
		t.Errorf("six nodes that get one place each leave %d of ten to the seventh", few[0].part)
	}
}
