package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/farm"
	"weir/farm/farmtest"
)

// lendingFarm is nodes that borrow from one engine, in the time of a test's bubble.
type lendingFarm struct {
	t     *testing.T
	pot   *farmtest.MemPot
	nodes []*lendingNode
	r     *rand.Rand
	mu    sync.Mutex
	lag   time.Duration // of a call, each way, at most; 0 for none
	fail  atomic.Int32  // of a hundred calls, so many get no answer, half of them after they were executed
	stall atomic.Bool
}

type lendingNode struct {
	*Quota
	farm   *lendingFarm
	name   string
	lender *Lender
	up     atomic.Bool
	dead   chan struct{}
	shift  atomic.Int64 // of its clock, in nanoseconds
}

func (n *lendingNode) now() time.Time { return time.Now().Add(time.Duration(n.shift.Load())) }

var errNoAnswer = errors.New("no answer")

func newLendingFarm(t *testing.T, nodes int, o Options) *lendingFarm {
	f := &lendingFarm{t: t, pot: farmtest.NewPot(time.Now), r: rand.New(rand.NewPCG(1, 2)), lag: time.Millisecond}
	for i := range nodes {
		f.join(fmt.Sprintf("n%d", i), o)
	}
	return f
}

func (f *lendingFarm) join(name string, o Options) *lendingNode {
	q, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	start := time.Now()
	n := &lendingNode{Quota: q, farm: f, name: name, dead: make(chan struct{})}
	n.up.Store(true)
	n.lender = q.Lend(Lending{Pot: n, Name: "plans", Run: name, Now: n.now,
		Since: func() time.Duration { return time.Since(start) },
		Live:  f.live, Nodes: func() int { return max(1, len(f.all())) },
		Call: func(msg []byte) error {
			for _, other := range f.all() {
				if other != n && other.up.Load() {
					go func() {
						f.sleep()
						if err := other.lender.Hear(msg, other.now()); err != nil {
							f.t.Error(err)
						}
					}()
				}
			}
			return nil
		}})
	n.lender.Alarm(n.alarm(n.lender.Advance))
	q.Alarm(n.alarm(q.Advance))
	f.mu.Lock()
	f.nodes = append(f.nodes, n)
	f.mu.Unlock()
	return n
}

func (f *lendingFarm) all() []*lendingNode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
}

func (f *lendingFarm) live() (live []string) {
	for _, n := range f.all() {
		if n.up.Load() {
			live = append(live, n.name)
		}
	}
	return live
}

func (f *lendingFarm) random(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.IntN(n)
}

func (f *lendingFarm) sleep() {
	if f.lag > 0 {
		time.Sleep(time.Duration(f.random(int(f.lag)) + 1))
	}
}

// alarm moves something when it is due.
func (n *lendingNode) alarm(advance func(time.Time) time.Time) func(time.Time) {
	var set func(due time.Time)
	set = func(due time.Time) {
		if !due.IsZero() {
			time.AfterFunc(due.Sub(n.now()), func() {
				if n.up.Load() {
					set(advance(n.now()))
				}
			})
		}
	}
	return set
}

// Take is a call over a network that loses some, to an engine that may stand still.
func (n *lendingNode) Take(ctx context.Context, ask farm.Ask) (farm.Reply, error) {
	f := n.farm
	f.sleep()
	if f.stall.Load() {
		time.Sleep(20 * time.Millisecond)
		return farm.Reply{}, errNoAnswer
	}
	fate := f.random(200)
	if fate < int(f.fail.Load()) {
		time.Sleep(20 * time.Millisecond)
		return farm.Reply{}, errNoAnswer
	}
	reply, err := f.pot.Take(ctx, ask)
	if fate < 2*int(f.fail.Load()) {
		time.Sleep(20 * time.Millisecond)
		return farm.Reply{}, errNoAnswer
	}
	f.sleep()
	return reply, err
}

func (n *lendingNode) Close() {}

func (n *lendingNode) close() {
	n.up.Store(false)
	n.lender.Close()
}

func (f *lendingFarm) close() {
	for _, n := range f.all() {
		if n.up.Load() {
			n.close()
		}
	}
	time.Sleep(time.Second) // until nobody is on the way
}

func exactly(p Policy) Options {
	p.Farm = FarmExact
	if p.Name == "" {
		p.Name = "limit"
	}
	return Options{Policies: []Policy{p}}
}

var hour = weir.Period{Length: time.Hour}
