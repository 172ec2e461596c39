package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/farm"
	"weir/farm/farmtest"
	"weir/store"
)

// lendingFarm is nodes that borrow from one engine, in the time of a test's bubble.
type lendingFarm struct {
	t     *testing.T
	pot   *farmtest.MemPot
	nodes []*lendingNode
	dead  []*lendingNode // that were killed
	boots int
	known map[string]bool // the names of all nodes that there ever were
	r     *rand.Rand
	mu    sync.Mutex
	lag   atomic.Int64 // of a call, each way, at most; 0 for none, in nanoseconds
	fail  atomic.Int32 // of a hundred calls, so many get no answer, half of them after they were executed
	stall atomic.Bool
}

type lendingNode struct {
	*Quota
	farm   *lendingFarm
	name   string
	lender *Lender
	disk   *memDisk
	up     atomic.Bool
	killed atomic.Bool
	noBus  atomic.Bool // it neither hears nor is heard
	noPot  atomic.Bool // it does not reach the engine
	dead   chan struct{}
	shift  atomic.Int64 // of its clock, in nanoseconds
	start  time.Time
}

// ready reports whether it serves: a node does when it and the others have heard each other.
func (n *lendingNode) ready() bool { return time.Since(n.start) >= 50*time.Millisecond }

func (n *lendingNode) now() time.Time { return time.Now().Add(time.Duration(n.shift.Load())) }

var errNoAnswer = errors.New("no answer")

func newLendingFarm(t *testing.T, nodes int, o Options) *lendingFarm {
	f := &lendingFarm{t: t, pot: farmtest.NewPot(time.Now), r: rand.New(rand.NewPCG(1, 2)), known: map[string]bool{}}
	f.lag.Store(int64(time.Millisecond))
	for i := range nodes {
		f.join(fmt.Sprintf("n%d", i), o)
	}
	return f
}

func (f *lendingFarm) join(name string, o Options) *lendingNode {
	return f.start(name, o, &memDisk{})
}

// start starts a node that has a disk already.
func (f *lendingFarm) start(name string, o Options, disk *memDisk) *lendingNode {
	q, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	start := time.Now()
	n := &lendingNode{Quota: q, farm: f, name: name, disk: disk, dead: make(chan struct{}), start: start}
	n.up.Store(true)
	f.mu.Lock()
	f.boots++
	boot := f.boots
	f.known[name] = true
	f.mu.Unlock()
	n.lender = q.Lend(Lending{Pot: n, Name: "plans", Run: fmt.Sprint(name, "+", boot), Now: n.now,
		Since: func() time.Duration { return time.Since(start) },
		Farm:  n.names, Nodes: func() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.known) },
		Disk: diskOf{disk, n},
		Call: func(msg []byte) error {
			for _, other := range f.all() {
				if other != n && other.up.Load() && !n.noBus.Load() && !other.noBus.Load() {
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
	if _, _, err := n.lender.Restore(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	n.lender.Alarm(n.alarm(n.lender.Advance))
	q.Alarm(n.alarm(q.Advance))
	f.mu.Lock()
	f.nodes = append(f.nodes, n)
	f.mu.Unlock()
	go n.meet()
	return n
}

// meet has a node and those that it hears tell each other all, as the farm does when one of them is up again.
func (n *lendingNode) meet() {
	n.farm.sleep()
	for _, other := range n.farm.all() {
		if other == n || n.noBus.Load() || other.noBus.Load() {
			continue
		}
		for _, way := range [][2]*lendingNode{{n, other}, {other, n}} {
			way[0].lender.Snapshot(func(msg []byte) bool { return way[1].lender.Hear(msg, way[1].now()) == nil })
		}
	}
}

// judge judges an event, unless the node is killed meanwhile: then there is no answer.
func (n *lendingNode) judge(ev *weir.Event) (a weir.Answer, answered bool) {
	done := make(chan weir.Answer, 1)
	go func() {
		var a weir.Answer
		_ = n.Judge(context.Background(), ev, &a)
		done <- a
	}()
	select {
	case a = <-done:
	case <-n.dead:
		if n.killed.Load() {
			return a, false
		}
		a = <-done
	}
	return a, !n.killed.Load()
}

func (f *lendingFarm) all() []*lendingNode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
}

// names are the nodes that this one hears, and itself.
func (n *lendingNode) names() (names []string) {
	n.farm.mu.Lock()
	defer n.farm.mu.Unlock()
	for _, other := range n.farm.nodes {
		if other != n && other.up.Load() && !other.noBus.Load() && !n.noBus.Load() {
			names = append(names, other.name)
		}
	}
	return append(names, n.name)
}

// end ends a node: by a signal that it hears, so that it returns what it has, or by one that it does not. It comes
// back, or is forgotten.
func (f *lendingFarm) end(n *lendingNode, kill bool) {
	f.mu.Lock()
	f.nodes = slices.DeleteFunc(f.nodes, func(one *lendingNode) bool { return one == n })
	if kill {
		f.dead = append(f.dead, n)
	}
	f.mu.Unlock()
	n.killed.Store(kill)
	n.up.Store(false)
	close(n.dead)
	if !kill {
		time.Sleep(100 * time.Millisecond) // what is under way ends
		n.lender.Close()
	}
}

// forget has all nodes forget one.
func (f *lendingFarm) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		n.lender.Forget(name)
	}
}

// A memDisk is the disk of a node.
type memDisk struct {
	mu  sync.Mutex
	all map[string]store.Ceiling
}

// A diskOf is a disk in the hands of a run: one that was killed does not write any more.
type diskOf struct {
	*memDisk
	of *lendingNode
}

func diskKey(c *store.Ceiling) string {
	return fmt.Sprint(c.Throttle, " ", c.Rule, " ", c.Account, " ", c.Source)
}

func (d diskOf) Save(_ context.Context, all []store.Ceiling) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of.killed.Load() {
		return errNoAnswer
	}
	if d.all == nil {
		d.all = map[string]store.Ceiling{}
	}
	for _, c := range all {
		if err := c.Validate(); err != nil {
			return err
		}
		d.all[diskKey(&c)] = c
	}
	return nil
}

func (d diskOf) Forget(_ context.Context, all []store.Ceiling) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range all {
		if old, ok := d.all[diskKey(&c)]; ok && old.Run == c.Run && !d.of.killed.Load() {
			delete(d.all, diskKey(&c))
		}
	}
	return nil
}

func (d diskOf) Load(_ context.Context, throttle string, now time.Time, each func(store.Ceiling) error) error {
	d.mu.Lock()
	all := slices.Collect(maps.Values(d.all))
	d.mu.Unlock()
	slices.SortFunc(all, func(a, b store.Ceiling) int { return cmp.Compare(b.Seq, a.Seq) })
	for _, c := range all {
		if c.Throttle == throttle && now.Before(c.Until) {
			if err := each(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d diskOf) Prune(context.Context, time.Time) (int, error) { return 0, nil }

// seed has another story begin.
func (f *lendingFarm) seed(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.r = rand.New(rand.NewPCG(n, 20))
}

func (f *lendingFarm) random(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.IntN(n)
}

func (f *lendingFarm) sleep() {
	if lag := f.lag.Load(); lag > 0 {
		time.Sleep(time.Duration(f.random(int(lag)) + 1))
	}
}

// alarm moves something when it is due.
func (n *lendingNode) alarm(advance func(time.Time) time.Time) func(time.Time) {
	var mu sync.Mutex
	var at time.Time // by the bubble's clock; zero where no timer is set
	var timer *time.Timer
	var set func(due time.Time)
	set = func(due time.Time) {
		if due.IsZero() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		next := time.Now().Add(max(0, due.Sub(n.now())))
		if !at.IsZero() && !next.Before(at) {
			return
		}
		if timer != nil {
			timer.Stop()
		}
		at = next
		timer = time.AfterFunc(time.Until(next), func() {
			mu.Lock()
			at = time.Time{}
			mu.Unlock()
			if n.up.Load() {
				set(advance(n.now()))
			}
		})
	}
	return set
}

// Take is a call over a network that loses some, to an engine that may stand still.
func (n *lendingNode) Take(ctx context.Context, ask farm.Ask) (farm.Reply, error) {
	f := n.farm
	f.sleep()
	if f.stall.Load() || n.noPot.Load() || n.killed.Load() {
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
	for _, n := range append(f.all(), f.dead...) { // whoever waits at a dead one is let go
		n.close()
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
