package farm_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

// lan is what a good network does.
var lan = farmtest.Network{DelayMin: 100 * time.Microsecond, DelayMax: 2 * time.Millisecond}

func sees(t *testing.T, n *farmtest.SimNode, want string) {
	t.Helper()
	if got := states(n); got != want {
		t.Errorf("%s sees %q, want %q", n.Name, got, want)
	}
}

func TestMembers(t *testing.T) {
	w := newWorld(t, 1, 3, lan, false)
	w.start(t)
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	w.Run(60 * time.Millisecond)
	sees(t, a, "b up, c up") // without waiting for the next heartbeats
	sees(t, c, "a up, b up")

	var seen []string
	a.Farm().Watch(func(m farm.Member) { seen = append(seen, m.Name+" "+string(m.State)) })
	old := farm.Node{Name: "b", Boot: b.Farm().Self().Boot}
	b.Kill()
	w.Run(farm.LostAfter - 50*time.Millisecond)
	sees(t, a, "b up, c up")
	w.Run(250 * time.Millisecond)
	sees(t, a, "b lost, c up")
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	w.Run(60 * time.Millisecond)
	sees(t, a, "b up, c up")
	if _, known := a.Farm().Tagged(old.Tag()); known {
		t.Error("the earlier run of b is still there")
	}
	if n, known := a.Farm().Tagged(b.Farm().Self().Tag()); !known || n != b.Farm().Self() {
		t.Error("the new run of b is not there")
	}
	if err := c.Farm().Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.Run(50 * time.Millisecond)
	sees(t, a, "b up, c left")
	want := "a here, b up, c up, b lost, b up, c left"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("was told %q, want %q", got, want)
	}
	w.Run(61 * time.Second)
	sees(t, a, "b up")
	if err := c.Farm().Leave(context.Background()); err != nil {
		t.Errorf("leaving twice: %v", err)
	}
	if !c.Farm().Advance(c.Clock()).IsZero() {
		t.Error("a node that left has something to do")
	}
	if err := c.Farm().Send(topic, nil); !errors.Is(err, farm.ErrClosed) {
		t.Errorf("sending after leaving: %v", err)
	}
}

func TestShare(t *testing.T) {
	w := newWorld(t, 1, 4, lan, false)
	w.start(t)
	a, b, c, d := w.nodes[0], w.nodes[1], w.nodes[2], w.nodes[3]
	share := func(n *farmtest.SimNode, of, rank int) {
		t.Helper()
		if gotOf, gotRank := n.Farm().Share(); gotOf != of || gotRank != rank {
			t.Errorf("%s has share %d of %d, want %d of %d", n.Name, gotRank, gotOf, rank, of)
		}
	}
	share(a, 1, 0)
	w.Run(time.Second)
	share(a, 4, 0)
	share(d, 4, 3)
	b.Kill()
	w.Run(2 * time.Second)
	share(d, 4, 3) // a node that is lost keeps its share
	if err := d.Farm().Forget("b"); err != nil {
		t.Fatal(err)
	}
	share(d, 3, 2)
	for _, name := range []string{"b", "c", "nobody"} {
		if err := d.Farm().Forget(name); !errors.Is(err, farm.ErrGone) {
			t.Errorf("forgetting %s: %v", name, err)
		}
	}
	if err := c.Farm().Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	share(d, 3, 1)
	w.Run(61 * time.Second)
	share(d, 2, 1)

	w = newWorld(t, 1, 2, lan, false)
	w.nodes[1].Options = func(j *farm.Joining) { j.Expected = 5 }
	w.start(t)
	w.Run(time.Second)
	share(w.nodes[1], 5, 1)
	share(w.nodes[0], 2, 0)
}

// A node that slept does not take the others for lost, and the others find it again.
func TestSleep(t *testing.T) {
	needs.Unwatched(t)
	w := newWorld(t, 1, 3, lan, false)
	w.start(t)
	w.Run(time.Second)
	a, c := w.nodes[0], w.nodes[2]
	var lost int
	c.Farm().Watch(func(m farm.Member) {
		if m.State == farm.Lost {
			lost++
		}
	})
	c.Stop()
	w.Run(2 * time.Second)
	sees(t, a, "b up, c lost")
	for range 2000 { // more than its backlog takes
		w.grow(a, 1)
	}
	w.Run(8 * time.Second)
	c.Wake()
	w.Run(2 * time.Second)
	w.agree(t)
	if lost != 0 {
		t.Errorf("it took others for lost %d times", lost)
	}
	if c.Farm().Stats().Missed == 0 {
		t.Error("nothing was missed, which this test is about")
	}
}

func TestOneWayIsLost(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	w.start(t)
	w.Run(time.Second)
	w.CutOneWay(w.nodes[0], w.nodes[1])
	w.Run(2 * time.Second)
	sees(t, w.nodes[0], "b up")
	sees(t, w.nodes[1], "a lost")
	w.Heal()
	w.Run(time.Second)
	w.agree(t)
}

func TestTakenName(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	w.start(t)
	w.Run(time.Second)
	a, b := w.nodes[0], w.nodes[1]
	other := w.add(t, "a", false)
	other.Skew = 3 * time.Second
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	w.Run(6 * time.Second) // its clock is ahead: until a's clock has passed its start, a might be an earlier run of it
	m := other.Farm().Members(other.Clock())[0]
	if m.State != farm.Refused || !strings.Contains(m.Why, "calls itself a: give this one another farm.node") {
		t.Errorf("%+v", m)
	}
	if err := other.Farm().Send(topic, nil); !errors.Is(err, farm.ErrRefused) {
		t.Errorf("sending: %v", err)
	}
	if _, err := other.Farm().Ask(context.Background(), b.Farm().Self(), topic, nil); !errors.Is(err, farm.ErrRefused) {
		t.Errorf("asking: %v", err)
	}
	if m := a.Farm().Members(a.Clock())[0]; m.State != farm.Here {
		t.Errorf("the first one is %+v", m)
	}
	if all := a.Farm().Members(a.Clock()); !slices.ContainsFunc(all, func(m farm.Member) bool {
		return m.State == farm.Refused && m.Why == "it has the name of this node: give it another farm.node"
	}) {
		t.Errorf("the first one does not report the other one: %+v", all)
	}
	if m := b.Farm().Members(b.Clock())[1]; m.State != farm.Up || m.Node != a.Farm().Self() {
		t.Errorf("b sees %+v", m)
	}
	a.Kill()
	w.Run(3 * time.Second)
	if m := other.Farm().Members(other.Clock())[0]; m.State != farm.Here {
		t.Errorf("after the other one is gone: %+v", m)
	}
	if m := b.Farm().Members(b.Clock())[1]; m.State != farm.Up || m.Node != other.Farm().Self() {
		t.Errorf("b sees %+v", m)
	}
	sees(t, other, "b up")
}

// A goodbye of the node that has the name lets the other one in at once.
func TestTakenNameIsLeft(t *testing.T) {
	w := newWorld(t, 1, 1, lan, false)
	w.start(t)
	w.Run(time.Second)
	other := w.add(t, "a", false)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	if m := other.Farm().Members(other.Clock())[0]; m.State != farm.Refused {
		t.Fatalf("%+v", m)
	}
	if err := w.nodes[0].Farm().Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.Run(10 * time.Millisecond)
	if m := other.Farm().Members(other.Clock())[0]; m.State != farm.Here || m.Why != "" {
		t.Errorf("%+v", m)
	}
}

// After a quick restart, heartbeats of the earlier run are still under way.
func TestQuickRestartIsNoTakenName(t *testing.T) {
	w := newWorld(t, 1, 3, farmtest.Network{DelayMin: 900 * time.Millisecond, DelayMax: 950 * time.Millisecond}, false)
	w.start(t)
	w.Run(3 * time.Second)
	a := w.nodes[0]
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		w.Run(100 * time.Millisecond)
		if m := a.Farm().Members(a.Clock())[0]; m.State != farm.Here {
			t.Fatalf("%+v", m)
		}
	}
	w.Network = lan
	w.Run(3 * time.Second)
	w.agree(t)
}

// A clock that went back makes the next run have a smaller boot.
func TestRestartWithClockSetBack(t *testing.T) {
	w := newWorld(t, 1, 3, lan, true)
	w.start(t)
	w.grow(w.nodes[0], 1)
	w.Run(time.Second)
	w.nodes[0].Skew = -time.Hour
	if err := w.nodes[0].Start(); err != nil {
		t.Fatal(err)
	}
	w.Run(5 * time.Second)
	w.agree(t)
}

// Clocks agree within the delay of messages, and none runs backwards.
func TestClocksAgree(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(3, 5).Draw(t, "nodes"), lan, false)
		w.Network.Loss = 0.05
		var skews []time.Duration
		for _, n := range w.nodes {
			n.Skew = time.Duration(rapid.IntRange(-250, 250).Draw(t, "skew")) * time.Millisecond
			skews = append(skews, n.Skew)
		}
		w.start(t)
		before := map[string]time.Time{}
		for range 130 {
			w.Run(100 * time.Millisecond)
			for _, n := range w.nodes {
				now := n.FarmTime()
				if now.Before(before[n.Name]) {
					t.Fatalf("the farm's time at %s went from %s to %s", n.Name, before[n.Name], now)
				}
				before[n.Name] = now
			}
		}
		slices.Sort(skews)
		for _, n := range w.nodes {
			away := n.Skew + n.Farm().Offset()
			if away < skews[(len(skews)-1)/2]-4*time.Millisecond || away > skews[len(skews)/2]+4*time.Millisecond {
				t.Errorf("the farm's time at %s is %s, and the clocks are %s", n.Name, away, skews)
			}
			if d := n.FarmTime().Sub(w.nodes[0].FarmTime()).Abs(); d > 4*time.Millisecond {
				t.Errorf("%s and %s are %s apart", n.Name, w.nodes[0].Name, d)
			}
		}
	})
}

func TestTwoClocksHaveNoMedian(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	w.nodes[1].Skew = time.Second
	w.start(t)
	w.Run(10 * time.Second)
	for i, n := range w.nodes {
		if n.Farm().Offset() != 0 {
			t.Errorf("%s: %s", n.Name, n.Farm().Offset())
		}
		m := n.Farm().Members(n.Clock())[1]
		want := time.Second * time.Duration(1-2*i)
		if (m.Offset - want).Abs() > 3*time.Millisecond {
			t.Errorf("%s thinks that the other is %s ahead, want %s", n.Name, m.Offset, want)
		}
		if m.Lag < 0 || m.Lag > 3*time.Millisecond {
			t.Errorf("lag %s", m.Lag)
		}
	}
}

// A machine's clock that jumps moves the offset slowly, loses nobody, and goes unnoticed by the others.
func TestClockJumps(t *testing.T) {
	needs.Unwatched(t)
	for _, jump := range []time.Duration{
		time.Hour, -time.Hour, 3 * time.Second, -3 * time.Second, 24 * 365 * time.Hour,
	} {
		w := newWorld(t, 1, 3, lan, false)
		w.start(t)
		w.Run(3 * time.Second)
		a, b := w.nodes[0], w.nodes[1]
		var lost int
		for _, n := range w.nodes {
			n.Farm().Watch(func(m farm.Member) {
				if m.State == farm.Lost {
					lost++
				}
			})
		}
		a.Skew += jump
		for range 100 {
			before := a.Farm().Offset()
			w.Run(100 * time.Millisecond)
			if moved := (a.Farm().Offset() - before).Abs(); moved > 15*time.Millisecond {
				t.Fatalf("jump %s: the offset moved by %s in 100 ms", jump, moved)
			}
		}
		off := a.Farm().Offset()
		if (off > 0) == (jump > 0) || off.Abs() > jump.Abs() || off.Abs() < 300*time.Millisecond {
			t.Errorf("jump %s: the offset is %s after 10 s", jump, off)
		}
		if off := b.Farm().Offset().Abs(); off > 4*time.Millisecond {
			t.Errorf("jump %s: the offset of another node is %s", jump, off)
		}
		if lost != 0 {
			t.Errorf("jump %s: %d lost", jump, lost)
		}
		b.Kill()
		w.Run(2 * time.Second)
		sees(t, a, "b lost, c up")
	}
}

// A node that starts, or was cut off, knows when it has caught up with the others.
func TestCaughtUp(t *testing.T) {
	w := newWorld(t, 1, 3, lan, false)
	w.start(t)
	w.Run(2 * time.Second)
	all := func() bool {
		return !slices.ContainsFunc(w.nodes, func(n *farmtest.SimNode) bool { return !n.Farm().CaughtUp() })
	}
	if !all() {
		t.Fatal("nodes that have nothing to tell have not caught up")
	}
	a, c := w.nodes[0], w.nodes[2]
	c.Kill()
	w.Run(2 * time.Second)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	behind := false
	for range 2000 {
		w.Run(time.Millisecond)
		behind = behind || c.Farm().Standing().Whole() && !c.Farm().CaughtUp()
	}
	if !behind || !all() {
		t.Errorf("it was behind: %t; all have caught up: %t", behind, all())
	}
	if s := a.Farm().Standing(); s.Of != 3 || s.Rank != 0 || s.Up != 7 || !s.Whole() {
		t.Errorf("%+v", s)
	}
}

// A node that said goodbye, or that an operator had forgotten, is not counted on until it is heard again, though it is
// listed.
func TestNotCountedOn(t *testing.T) {
	needs.Unwatched(t)
	w := newWorld(t, 1, 3, lan, false)
	for _, n := range w.nodes {
		n.Options = func(j *farm.Joining) { j.Expected = 3 }
	}
	w.start(t)
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	of := func(want int, whole bool) {
		t.Helper()
		if s := a.Farm().Standing(); s.Of != want || s.Whole() != whole {
			t.Errorf("%+v, want %d, whole %t", s, want, whole)
		}
	}
	share := func(want int) {
		t.Helper()
		if of, _ := a.Farm().Share(); of != want {
			t.Errorf("shares of %d, want %d", of, want)
		}
	}
	of(3, false)
	w.Run(time.Second)
	of(3, true)
	if err := c.Farm().Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	w.Run(time.Second)
	of(2, true)
	share(3)
	w.Run(2 * time.Minute)
	of(2, true)
	share(2)
	b.Kill()
	w.Run(2 * time.Second)
	of(2, false)
	if err := a.Farm().Forget("b"); err != nil {
		t.Fatal(err)
	}
	of(1, true)
	for _, n := range []*farmtest.SimNode{b, c} {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	w.Run(time.Second)
	of(3, true)
}

// A node that starts sets its clock at once, however wrong its machine's is.
func TestClockOfANewNode(t *testing.T) {
	for _, skew := range []time.Duration{5 * time.Second, -5 * time.Second, time.Hour} {
		w := newWorld(t, 1, 4, lan, false)
		c := w.nodes[2]
		c.Skew = skew
		for _, n := range w.nodes {
			if n != c {
				if err := n.Start(); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.Run(2 * time.Second)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		w.Run(time.Second)
		c.Farm().SetClock()
		if off := c.FarmTime().Sub(w.Now()); off.Abs() > 20*time.Millisecond {
			t.Errorf("with a clock %s ahead, the time is %s off after a second", skew, off)
		}
	}
}

// A node that has much to read handles it in portions, so that nobody takes it for lost, nor it the others.
func TestPortions(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	w.start(t)
	w.Run(time.Second)
	a, b := w.nodes[0], w.nodes[1]
	var heard int
	if _, err := b.Farm().Keep("much", hears(func(msg []byte) { heard += len(msg) })); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Farm().Keep("much", hears(func([]byte) {})); err != nil {
		t.Fatal(err)
	}
	w.Run(2 * time.Second)
	b.Stop()
	const messages = 64
	for range messages {
		if err := a.Farm().Send("much", make([]byte, farm.MaxPlain)); err != nil {
			t.Fatal(err)
		}
	}
	w.Run(500 * time.Millisecond)
	snapshots := b.Farm().Stats().Snapshots
	b.Wake()
	if heard > 2<<20 {
		t.Errorf("%d bytes in one step", heard)
	}
	w.Run(100 * time.Millisecond)
	if heard != messages*farm.MaxPlain || b.Farm().Stats().Snapshots != snapshots {
		t.Errorf("%d bytes, %+v", heard, b.Farm().Stats())
	}
}

// hears is a state that only listens.
type hears func(msg []byte)

func (h hears) Hear(_ farm.Node, msg []byte, _ time.Time) error { h(msg); return nil }

func (hears) Snapshot(time.Time, func([]byte) bool) {}
