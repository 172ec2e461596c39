package quota

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir"
	"weir/farm"
	"weir/farm/farmtest"
)

// A node is a quota on one node of a simulated farm, over all its runs.
type node struct {
	*farmtest.SimNode
	world   *world
	options Options
	quota   *Quota
	shared  *Shared
	stands  farm.Standing
	began   time.Time      // of the run, by the farm's time
	knew    bool           // what was used before
	run     int            // which one of the world's this is
	kept    shelf          // what a store has; nil where there is none
	line    []*visit       // those who wait
	known   map[fact]int   // what the run was told, and what had happened by then
	levels  map[fact]int64 // the same for what is under way
	order   map[string]int // the last one of an account that was called
}

// A visit is a request that is under way or waits.
type visit struct {
	node    *node
	run     int
	n       int
	account string
	cost    int64
	charge  *charge // nil while nothing is charged
	in      bool    // it waits no more
	ended   bool
	answer  weir.Answer
}

// A charge is something that was granted.
type charge struct {
	node   *node
	run    int
	n      int   // what happened before
	at     int64 // by the farm's time, as the node knew it
	cost   int64
	resets map[uint64]int64 // which reset the node knew of, by rule
	back   bool             // it was given back, at some time
	slices map[uint64]int64 // that it was charged to, by rule
	saved  bool             // a store has it
}

// A fact is what a run of a node can be told of.
type fact struct {
	run     int
	account string
	rule    uint64
	slice   int64
}

// A world is a farm in simulated time, with one quota.
type world struct {
	*farmtest.Sim
	t       tb
	options Options
	nodes   []*node
	ledger  map[string][]*charge // by the account
	granted map[string][]time.Time
	resets  map[string]int64 // when accounts were last reset
	n       int              // counts what happens
	runs    int
	built   map[string]int // what had happened when a message was made
	byBoot  map[string]int // runs
	faults  bool           // something happened that explains that nodes did not hear of each other
	slack   time.Duration  // by which clocks differ
	checks  bool
}

func newWorld(t tb, seed uint64, nodes int, net farmtest.Network, o Options) *world {
	t.Helper()
	w := &world{Sim: farmtest.NewSim(seed, net), t: t, options: o, ledger: map[string][]*charge{},
		granted: map[string][]time.Time{}, built: map[string]int{}, byBoot: map[string]int{},
		resets: map[string]int64{}, slack: net.DelayMax + time.Millisecond}
	for i := range nodes {
		n := &node{SimNode: w.Node(string(rune('a' + i))), world: w, options: o}
		n.Started = n.begin
		n.Options = func(j *farm.Joining) { j.Expected = nodes }
		w.nodes = append(w.nodes, n)
	}
	return w
}

// start starts all nodes, and lets them meet.
func (w *world) start() *world {
	w.t.Helper()
	for _, n := range w.nodes {
		n.start()
	}
	w.Run(3 * time.Second)
	return w
}

func (n *node) start() {
	n.world.t.Helper()
	if err := n.Start(); err != nil {
		n.world.t.Fatal(err)
	}
}

const topic = "quota.test"

// begin makes the quota of a run.
func (n *node) begin(*farmtest.SimNode) {
	w, f := n.world, n.Farm()
	n.quota = n.kept.give(w.t, n.options, n.FarmTime())
	w.runs++
	if n.run > 0 && n.Skew != 0 { // it begins again with its machine's clock
		w.slack = max(w.slack, 200*time.Millisecond)
	}
	n.run, n.line, n.stands = w.runs, nil, farm.Standing{}
	n.began, n.knew = n.FarmTime(), false
	n.known, n.levels, n.order = map[fact]int{}, map[fact]int64{}, map[string]int{}
	w.byBoot[fmt.Sprint(n.Name, f.Self().Boot)] = n.run
	n.shared = n.quota.Share(n.Name, f.Self().Boot, func(msg []byte) error {
		n.note(msg)
		return f.Send(topic, msg)
	})
	if _, err := f.Keep(topic, n); err != nil {
		w.t.Fatal(err)
	}
	f.Watch(func(m farm.Member) {
		w.After(0, func() {
			switch {
			case n.Farm() != f || m.Name == n.Name:
			case m.State == farm.Up:
				n.shared.Find(m.Name, n.FarmTime())
			default:
				for fact := range n.levels {
					if w.nameOf(fact.run) == m.Name {
						delete(n.levels, fact)
					}
				}
				n.shared.Lose(m.Name, n.FarmTime())
			}
			n.called()
		})
	})
	n.Drive(n.shared)
	n.Drive(caller{n.quota, n})
	n.divide()
	w.Every(50*time.Millisecond, func() bool {
		if n.Farm() != f {
			return false
		}
		n.divide()
		return true
	})
}

// A caller sends those on their way whose turn has come.
type caller struct {
	*Quota
	node *node
}

func (c caller) Advance(now time.Time) time.Time {
	next := c.Quota.Advance(now)
	c.node.called()
	return next
}

func (w *world) nameOf(run int) string {
	for name, r := range w.byBoot {
		if r == run {
			return name[:1]
		}
	}
	return ""
}

func (n *node) divide() {
	if !n.knew && n.Running() {
		since := n.began
		if n.knew = n.Farm().Learn().Knows; n.knew {
			since = time.Time{}
		}
		n.quota.Unaware(since, n.FarmTime())
		n.called()
	}
	if s := n.Farm().Standing(); s != n.stands && n.Running() {
		n.stands = s
		n.quota.Divide(s)
		n.called()
	}
}

// note remembers what had happened when a message was made.
func (n *node) note(msg []byte) {
	d := reader{msg: msg}
	h, err := d.head()
	if err != nil {
		n.world.t.Fatal(err)
	}
	n.world.n++
	n.world.built[fmt.Sprint(n.run, " ", h.at)] = n.world.n
}

func (n *node) Hear(from farm.Node, msg []byte, _ time.Time) error {
	w := n.world
	now := n.FarmTime()
	run := w.byBoot[fmt.Sprint(from.Name, from.Boot)]
	d := reader{msg: msg}
	h, err := d.head()
	if err != nil {
		w.t.Fatal(err)
	}
	built := w.built[fmt.Sprint(run, " ", h.at)]
	learnt := map[fact]int{}
	rs := n.quota.rules.Load()
	for len(d.msg) > 0 {
		rec, err := d.record()
		if err != nil {
			w.t.Fatal(err)
		}
		r := rs.byID[rec.rule]
		if r == nil || rec.node != "" {
			continue
		}
		for _, c := range rec.cells {
			f := fact{run, rec.account, rec.rule, c.slice}
			if rec.source.IsValid() {
				f.account = rec.source.String()
			}
			switch {
			case r.way == steady:
				f.slice = 0
			case r.way == inStretches && c.slice > nanos(now)/r.bucket:
				continue // its clock is ahead
			case r.way == level && built > n.known[f]:
				n.levels[f] = c.total
			}
			learnt[f] = built
		}
	}
	for f := range n.levels {
		if _, said := learnt[f]; h.why == end && f.run == run && !said && built > n.known[f] {
			delete(n.levels, f) // it said everything there is
		}
		if f.run < run && w.nameOf(f.run) == from.Name {
			delete(n.levels, f)
		}
	}
	err = n.shared.Hear(from.Name, from.Boot, msg, now)
	n.called()
	for f, built := range learnt {
		n.known[f] = max(n.known[f], built)
	}
	return err
}

func (n *node) Lasting() bool { return n.shared.Lasting() }

func (n *node) Snapshot(_ time.Time, give func([]byte) bool) {
	n.shared.Snapshot(n.FarmTime(), func(msg []byte) bool {
		n.note(msg)
		return give(msg)
	})
}

// ask sends one event.
func (n *node) ask(account string) *visit { return n.askFor(account, 1) }

func (n *node) askFor(account string, cost int64) *visit {
	w := n.world
	w.n++
	v := &visit{node: n, run: n.run, n: w.n, account: account, cost: cost}
	if !n.Running() {
		v.answer.Verdict, v.ended = weir.Refuse, true
		return v
	}
	ev := &weir.Event{Time: n.FarmTime(), Account: account, Cost: cost}
	if source, err := netip.ParseAddr(account); err == nil { // it has no account
		ev.Account, ev.Source = "", source
	}
	if err := n.quota.Judge(context.Background(), ev, &v.answer); err != nil {
		w.t.Fatal(err)
	}
	n.enter(v)
	if w.checks && v.answer.Verdict == weir.Refuse && v.answer.Reason == weir.OverLimit {
		n.checkRefusal(v)
	}
	n.called()
	return v
}

// enter goes on with an event that was let in.
func (n *node) enter(v *visit) {
	w := n.world
	if v.answer.Verdict == weir.Admit && v.charge == nil {
		at := v.answer.Hold.At
		if waiter, ok := v.answer.Hold.Ref.(*waiter); ok {
			at = waiter.at
		}
		w.n++
		v.charge = &charge{node: n, run: n.run, n: w.n, at: at, cost: v.cost,
			slices: map[uint64]int64{}, resets: map[uint64]int64{}}
		n.checkGrant(v)
		w.ledger[v.account] = append(w.ledger[v.account], v.charge)
	}
	now := v.answer.Verdict == weir.Admit && v.answer.Hold.Enter
	if now {
		n.quota.Enter(&v.answer.Hold, n.FarmTime(), &v.answer)
	}
	switch v.answer.Verdict {
	case weir.Admit:
		v.in = true
		if now { // who waited for a place was called earlier, by what was known then
			n.checkLevel(v)
		}
		w.granted[v.account] = append(w.granted[v.account], w.Now())
	case weir.Wait:
		n.line = append(n.line, v)
	default:
		v.ended = true
		if v.charge != nil {
			v.charge.back = true
		}
		if !v.answer.Hold.IsZero() { // it did not enter
			n.quota.Settle(v.answer.Hold, weir.Outcome{Time: n.FarmTime()})
		}
	}
}

// called sends those on their way whose turn has come.
func (n *node) called() {
	for again := true; again; {
		again = false
		for _, v := range slices.Clone(n.line) {
			select {
			case <-v.answer.Turn.Called():
			default:
				continue
			}
			again = true
			n.line = slices.DeleteFunc(n.line, func(other *visit) bool { return other == v })
			if v.answer.Turn.Refused() != weir.NoReason {
				v.answer.Verdict, v.answer.Reason = weir.Refuse, v.answer.Turn.Refused()
				n.enter(v)
				continue
			}
			if last := n.order[v.account]; v.n < last && n.world.checks && len(n.options.Policies) == 1 {
				n.world.t.Fatalf("%s: %d of %s is called after %d", n.Name, v.n, v.account, last)
			}
			n.order[v.account] = v.n
			v.answer.Verdict = weir.Admit
			n.enter(v)
			if v.in {
				n.quota.Away(v.answer.Hold, n.FarmTime())
			}
		}
	}
}

// end ends a request.
func (v *visit) end(done bool) {
	n := v.node
	switch {
	case v.run != n.run || n.Farm() == nil || v.ended:
		return
	case !n.Running(): // when it wakes
		n.world.After(100*time.Millisecond, func() { v.end(done) })
		return
	}
	v.ended = true
	n.line = slices.DeleteFunc(n.line, func(other *visit) bool { return other == v })
	if v.charge != nil && !done {
		v.charge.back = true
	}
	n.quota.Settle(v.answer.Hold, weir.Outcome{Time: n.FarmTime(), Done: done})
	n.called()
}

// save saves what is to be kept over a restart.
func (n *node) save() {
	if n.kept == nil || !n.Running() {
		return
	}
	n.kept.take(n.world.t, n.quota, n.FarmTime())
	for _, ledger := range n.world.ledger {
		for _, c := range ledger {
			c.saved = c.saved || c.run == n.run
		}
	}
}

// perPeriod counts what was granted in each period of true time.
func (w *world) perPeriod(account string, period time.Duration) map[time.Time]int {
	counts := map[time.Time]int{}
	for _, at := range w.granted[account] {
		counts[at.Truncate(period)]++
	}
	return counts
}

func policy(window WindowKind, limit int64, period time.Duration) Options {
	return one(Policy{Name: "p", Limit: Count(limit), Window: window, Period: weir.Period{Length: period}})
}

var lan = farmtest.Network{DelayMin: 100 * time.Microsecond, DelayMax: 2 * time.Millisecond}

var _ tb = (*testing.T)(nil)
