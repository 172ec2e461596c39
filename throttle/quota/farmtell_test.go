package quota

import (
	"testing"
	"time"

	"weir"
)

// A talker is a quota of a farm whose messages go where the test says.
type talker struct {
	*rig
	shared *Shared
	name   string
	boot   uint64
	out    [][]byte // what it has told
}

func newTalker(t *testing.T, name string, boot uint64, o Options) *talker {
	return newRig(t, o).talks(name, boot)
}

// talks makes the quota of a rig one of a farm.
func (r *rig) talks(name string, boot uint64) *talker {
	n := &talker{rig: r, name: name, boot: boot}
	n.shared = r.q.Share(name, boot, func(msg []byte) error { n.out = append(n.out, msg); return nil })
	return n
}

// tell says what has changed, and returns the messages.
func (n *talker) tell() [][]byte {
	n.out = nil
	n.shared.Advance(n.now)
	return n.out
}

// hear hands messages of another node over.
func (n *talker) hear(from *talker, msgs [][]byte) {
	n.t.Helper()
	for _, msg := range msgs {
		if err := n.shared.Hear(from.name, from.boot, msg, n.now); err != nil {
			n.t.Fatal(err)
		}
	}
}

// left checks what an account has left of the first policy.
func (n *talker) left(account string, want int64) {
	n.t.Helper()
	if got, _ := n.q.Account(account, n.now); len(got.Rules) == 0 || got.Rules[0].Remaining != want {
		n.t.Errorf("%s at %s: %+v, want %d left", n.name, n.now.Sub(epoch), got, want)
	}
}

// What is given back is taken from the part of a sliding window that it was put into, though another node, whose clock
// is a little ahead, has begun the next part meanwhile.
func TestGiveBackWhereAPartBegins(t *testing.T) {
	o := one(Policy{Name: "p", Window: Sliding, Limit: Count(10), Period: weir.Period{Length: 16 * time.Second}})
	a, b := newTalker(t, "a", 1, o), newTalker(t, "b", 1, o)
	a.now, b.now = epoch.Add(time.Second), epoch.Add(time.Second-time.Millisecond)
	a.admit("x")
	b.hear(a, a.tell())
	e := b.admit("x")
	a.hear(b, b.tell())
	a.left("x", 8)
	b.settle(e, false)
	a.hear(b, b.tell())
	a.left("x", 9)
	b.left("x", 9)
	// What stays is over when its own part is: no node keeps it longer.
	b.admit("x")
	a.hear(b, b.tell())
	for _, n := range []*talker{a, b} {
		n.now = epoch.Add(17 * time.Second)
		n.left("x", 9)
		n.now = epoch.Add(18 * time.Second)
		n.left("x", 10)
	}
}

// What was charged before a node heard of a reset is forgotten, and is not given back on top of that.
func TestGiveBackOfWhatAResetForgot(t *testing.T) {
	for _, window := range []WindowKind{Fixed, Sliding} {
		o := policy(window, 10, time.Hour)
		a, b := newTalker(t, "a", 1, o), newTalker(t, "b", 1, o)
		a.admit("x")
		b.hear(a, a.tell())
		if !a.q.Reset("x", a.now) {
			t.Fatal("x is not known")
		}
		b.now = b.now.Add(time.Millisecond)
		late := b.admit("x") // it does not know yet
		b.hear(a, a.tell())
		b.left("x", 10)
		next := b.admit("x") // at the same time
		b.settle(late, false)
		b.left("x", 9)
		b.settle(next, false)
		b.left("x", 10)
	}
}

// Who waits and is called because of a reset is given back as anybody else.
func TestGiveBackOfWhoWasCalledByAReset(t *testing.T) {
	o := policy(Fixed, 1, time.Hour)
	o.Policies[0] = delayed(o.Policies[0], 1, time.Hour)
	a, b := newTalker(t, "a", 1, o), newTalker(t, "b", 1, o)
	a.admit("x")
	b.hear(a, a.tell())
	waits := b.wait("x")
	a.q.Reset("x", a.now)
	b.hear(a, a.tell())
	if got := b.called(); len(got) != 1 {
		t.Fatalf("%d are called", len(got))
	}
	b.left("x", 0)
	b.settle(waits, false)
	b.left("x", 1)
}

// A node that was reset, and is started anew with what it used since, is told of the reset again: it forgets nothing.
func TestAResetIsKept(t *testing.T) {
	for _, window := range []WindowKind{Fixed, Sliding, GCRA} {
		o := one(Policy{Name: "p", Window: window, Limit: Count(10), Period: weir.Period{Length: 24 * time.Hour}})
		a, b := newTalker(t, "a", 1, o), newTalker(t, "b", 1, o)
		a.now, b.now = epoch.Add(time.Hour), epoch.Add(time.Hour)
		kept := shelf{}
		b.admit("x")
		kept.take(t, b.q, b.now)
		a.hear(b, b.tell())
		a.now, b.now = a.now.Add(time.Second), b.now.Add(time.Second)
		a.q.Reset("x", a.now)
		told := a.tell()
		b.hear(a, told)
		a.now, b.now = a.now.Add(time.Second), b.now.Add(time.Second)
		b.admit("x")
		kept.take(t, b.q, b.now)

		again := (&rig{t: t, q: kept.give(t, o, b.now), now: b.now}).talks("b", 2)
		again.left("x", 9)
		again.hear(a, told)
		again.left("x", 9)

		// One that was saved before the reset forgets.
		kept = shelf{}
		c := newTalker(t, "c", 1, o)
		c.now = epoch.Add(time.Hour)
		c.admit("x")
		kept.take(t, c.q, c.now)
		again = (&rig{t: t, q: kept.give(t, o, b.now), now: b.now}).talks("c", 2)
		again.hear(a, told)
		again.left("x", 10)
	}
}

// A node without a store is told what its earlier runs used as soon as it is heard anew, and not with the next snapshot
// only: until then it would grant all of that once more.
func TestEarlierRunsAreTold(t *testing.T) {
	for _, window := range []WindowKind{Fixed, Sliding} {
		o := policy(window, 10, time.Hour)
		a, b := newTalker(t, "a", 1, o), newTalker(t, "b", 1, o)
		for range 3 {
			a.admit("x")
		}
		b.hear(a, a.tell())
		b.admit("x")
		b.tell() // nobody hears it

		again := newTalker(t, "a", 2, o)
		again.admit("y")
		b.hear(again, again.tell())
		again.hear(b, b.tell())
		again.left("x", 7)
		again.hear(b, b.tell()) // it is told once, and counted once
		again.left("x", 7)
	}
}

// Once nobody waits any more, a line that forms later counts as what it is, until the others are told how long it is.
func TestWhoWaitedIsForgotten(t *testing.T) {
	o := policy(Fixed, 1, time.Second)
	o.Policies[0] = delayed(o.Policies[0], 5, time.Minute)
	a := newTalker(t, "a", 1, o)
	asks := func() int64 {
		rs := a.q.rules.Load()
		x := a.q.table.known(rs, "x")
		defer x.shard.mu.Unlock()
		return x.state(rs.list[0]).demand(1)
	}
	a.admit("x")
	var line []*event
	for range 4 {
		line = append(line, a.wait("x"))
	}
	if a.tell(); asks() != 4 {
		t.Errorf("%d ask", asks())
	}
	for _, e := range line {
		a.settle(e, false)
	}
	a.tell()
	if a.wait("x"); asks() != 1 {
		t.Errorf("%d ask, and one does", asks())
	}
}

// What is told counts as told. What a snapshot says again does not.
func TestToldIsCounted(t *testing.T) {
	a := newTalker(t, "a", 1, policy(Fixed, 10, time.Hour))
	for _, account := range []string{"x", "y", "x"} {
		a.admit(account)
	}
	a.tell()
	a.shared.Snapshot(a.now, func([]byte) bool { return true })
	if got := a.shared.Stats().Told; got != 2 {
		t.Errorf("%d were told, want 2", got)
	}
}

// A snapshot of a node whose clock is ahead does not speak of what is over there. Where it counts, it stays counted.
func TestASnapshotSpeaksOfItsOwnTime(t *testing.T) {
	for window, period := range map[WindowKind]time.Duration{Fixed: time.Second, Sliding: 16 * time.Second} {
		o := policy(window, 10, period)
		a, b := newTalker(t, "a", 1, o), newTalker(t, "b", 1, o)
		a.admit("x")
		b.hear(a, a.tell())
		b.left("x", 9)
		a.now, b.now = a.now.Add(period+time.Second), b.now.Add(period-time.Millisecond)
		b.hear(a, [][]byte{snapshotOf(a)})
		b.left("x", 9)
		// By its own time it is over as well.
		b.now = a.now
		b.left("x", 10)
	}
}

// What a node gave back counts no more, also where it is silent about an account of which it has nothing left.
func TestASnapshotIsSilentAboutWhatWasGivenBack(t *testing.T) {
	for _, window := range []WindowKind{Fixed, Sliding} {
		o := policy(window, 10, 16*time.Second)
		a, b := newTalker(t, "a", 1, o), newTalker(t, "b", 1, o)
		e := a.admit("x")
		b.hear(a, a.tell())
		a.settle(e, false)
		a.tell() // nobody hears it
		a.now, b.now = a.now.Add(time.Second), b.now.Add(time.Second)
		b.left("x", 9)
		b.hear(a, [][]byte{snapshotOf(a)})
		b.left("x", 10)
	}
}

// snapshotOf is all that a node knows, which is little.
func snapshotOf(n *talker) (msg []byte) {
	n.shared.Snapshot(n.now, func(m []byte) bool { msg = m; return true })
	return msg
}

// What a node charged whose clock is ahead counts at one that is behind, up to a whole period. What that one charges
// counts at the other.
func TestSlidingWithClocksApart(t *testing.T) {
	for _, apart := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 900 * time.Millisecond} {
		o := policy(Sliding, 10, time.Second)
		ahead, behind := newTalker(t, "a", 1, o), newTalker(t, "b", 1, o)
		ahead.now = ahead.now.Add(apart)
		for range 4 {
			behind.admit("x")
		}
		ahead.hear(behind, behind.tell())
		ahead.left("x", 6)
		for range 4 {
			ahead.admit("x")
		}
		behind.hear(ahead, ahead.tell())
		behind.left("x", 2)
		behind.admit("x")
		behind.admit("x")
		behind.refuse("x", weir.OverLimit)
		ahead.hear(behind, behind.tell())
		ahead.refuse("x", weir.OverLimit)
		for _, n := range []*talker{ahead, behind} { // nobody is shut out for longer than both clocks are apart
			n.now = n.now.Add(17*time.Second/16 + apart)
			n.left("x", 10)
		}
	}
}
