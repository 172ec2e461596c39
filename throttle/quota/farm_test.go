package quota_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir"
	"weir/farm"
	"weir/farm/farmtest"
	"weir/throttle/quota"
)

// A node is a quota on one node of a simulated farm.
type node struct {
	*farmtest.SimNode
	world  *world
	quota  *quota.Quota
	shared *quota.Shared
	stands farm.Standing
	waits  []*weir.Answer
}

// A world is a farm in simulated time, with one quota.
type world struct {
	*farmtest.Sim
	t       testing.TB
	options quota.Options
	nodes   []*node
	granted map[string][]time.Time // by the account, in true time
}

func newWorld(t testing.TB, seed uint64, nodes int, net farmtest.Network, o quota.Options) *world {
	w := &world{Sim: farmtest.NewSim(seed, net), t: t, options: o, granted: map[string][]time.Time{}}
	for i := range nodes {
		n := &node{SimNode: w.Node(string(rune('a' + i))), world: w}
		n.Started = n.begin
		n.Options = func(j *farm.Joining) { j.Expected = nodes }
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	w.Run(3 * time.Second)
	return w
}

const topic = "quota.test"

// begin makes the quota of a run.
func (n *node) begin(*farmtest.SimNode) {
	q, err := quota.New(n.world.options)
	if err != nil {
		n.world.t.Fatal(err)
	}
	f := n.Farm()
	n.quota, n.waits, n.stands = q, nil, farm.Standing{}
	n.shared = q.Share(n.Name, f.Self().Boot, func(msg []byte) error { return f.Send(topic, msg) })
	if _, err := f.Keep(topic, n); err != nil {
		n.world.t.Fatal(err)
	}
	f.Watch(func(m farm.Member) {
		n.world.After(0, func() {
			if m.State == farm.Up {
				n.shared.Find(m.Name, n.FarmTime())
			} else {
				n.shared.Lose(m.Name, n.FarmTime())
			}
		})
	})
	n.Drive(n.shared)
	n.Drive(q)
	run := n.Farm()
	n.world.Every(50*time.Millisecond, func() bool {
		if n.Farm() != run {
			return false
		}
		n.divide()
		return true
	})
}

func (n *node) divide() {
	if s := n.Farm().Standing(); s != n.stands {
		n.stands = s
		n.quota.Divide(s.Of, s.Rank, s.Up)
	}
}

func (n *node) Hear(from farm.Node, msg []byte, _ time.Time) error {
	return n.shared.Hear(from.Name, from.Boot, msg, n.FarmTime())
}

func (n *node) Snapshot(_ time.Time, give func([]byte) bool) { n.shared.Snapshot(n.FarmTime(), give) }

// ask sends one event, and reports whether it goes on.
func (n *node) ask(account string) *weir.Answer {
	if !n.Running() {
		return &weir.Answer{Verdict: weir.Refuse}
	}
	a := new(weir.Answer)
	if err := n.quota.Judge(context.Background(), &weir.Event{Time: n.FarmTime(), Account: account}, a); err != nil {
		n.world.t.Fatal(err)
	}
	if a.Verdict == weir.Admit {
		n.world.granted[account] = append(n.world.granted[account], n.world.Now())
	}
	return a
}

// perPeriod counts what was granted in each period of true time.
func (w *world) perPeriod(account string, period time.Duration) map[time.Time]int {
	counts := map[time.Time]int{}
	for _, at := range w.granted[account] {
		counts[at.Truncate(period)]++
	}
	return counts
}

func policy(window quota.WindowKind, limit int64, period time.Duration) quota.Options {
	return quota.Options{Policies: []quota.Policy{{Name: "p", Limit: quota.Count(limit), Window: window,
		Period: weir.Period{Length: period}}}}
}

var lan = farmtest.Network{DelayMin: 100 * time.Microsecond, DelayMax: 2 * time.Millisecond}

// The document's case: a limit of four a second, and five requests, one to each of five servers.
func TestFiveServersKeepOneLimit(t *testing.T) {
	for _, window := range []quota.WindowKind{quota.Fixed, quota.Sliding, quota.GCRA} {
		w := newWorld(t, 1, 5, lan, policy(window, 4, time.Second))
		w.Run(5 * time.Millisecond) // clocks differ a little where a period begins
		for round := range 50 {
			account := fmt.Sprint("account ", round)
			for i, n := range w.nodes {
				if a := n.ask(account); (a.Verdict == weir.Admit) != (i < 4) && window != quota.GCRA {
					t.Errorf("%s, round %d: server %d says %s", window, round, i, a.Verdict)
				}
				w.Run(20 * time.Millisecond)
			}
		}
	}
}

// Six nodes under load stay close to the limit: at most what the others grant until they are told, and at a steady rate
// nothing in the long run.
func TestOvershoot(t *testing.T) {
	const limit, seconds = 1000, 5
	for _, c := range []struct {
		window  quota.WindowKind
		offered int // a second
		most    int // in a second
		all     int
	}{
		{quota.Fixed, 4000, limit * 101 / 100, limit * 101 / 100 * seconds},
		{quota.Fixed, 20000, limit * 107 / 100, limit * 107 / 100 * seconds},
		{quota.Sliding, 4000, limit * 101 / 100, limit * 101 / 100 * seconds},
		{quota.Sliding, 20000, limit * 107 / 100, limit * 107 / 100 * seconds},
		{quota.GCRA, 4000, 2 * limit * 101 / 100, limit * (seconds + 1) * 1005 / 1000},
		{quota.GCRA, 20000, 2 * limit * 101 / 100, limit * (seconds + 1) * 1005 / 1000},
	} {
		t.Run(fmt.Sprintf("%s %d", c.window, c.offered), func(t *testing.T) {
			w := newWorld(t, 1, 6, lan, policy(c.window, limit, time.Second))
			rnd := rand.New(rand.NewPCG(1, 1))
			w.Every(time.Second/time.Duration(c.offered), func() bool {
				w.nodes[rnd.IntN(6)].ask("x")
				return true
			})
			w.Run(seconds * time.Second)
			worst := 0
			for _, n := range w.perPeriod("x", time.Second) {
				worst = max(worst, n)
			}
			if all := len(w.granted["x"]); worst > c.most || all > c.all || all < limit*seconds*99/100 {
				t.Errorf("%d in the worst second, %d in all; at most %d, and %d", worst, all, c.most, c.all)
			}
		})
	}
}
