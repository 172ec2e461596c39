package farm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

// A snapshot that is larger than the outbox is sent bit by bit.
func TestLargeSnapshot(t *testing.T) {
	needs.Unwatched(t)
	for _, loss := range []float64{0, 0.2} {
		w := newWorld(t, 1, 2, lan, false)
		w.Network.Outbox, w.Network.Rate = 300_000, 5_000_000
		w.start(t)
		w.Run(time.Second)
		for range 200 {
			w.grow(w.nodes[0], 20_000) // 4 MB, most of which the outbox does not take
		}
		w.Network.Loss = loss
		w.Run(12 * time.Second)
		w.Network.Loss = 0
		w.Run(time.Second)
		w.agree(t)
		if w.nodes[1].Farm().Stats().Missed == 0 {
			t.Error("nothing was missed, which this test is about")
		}
	}
}

// Many nodes that ask for the same are sent it once.
func TestSnapshotsAreShared(t *testing.T) {
	needs.Unwatched(t)
	w := newWorld(t, 1, 6, lan, false)
	if err := w.nodes[0].Start(); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		w.grow(w.nodes[0], 50_000)
	}
	w.Run(time.Second)
	for _, n := range w.nodes[1:] {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	before := w.nodes[0].Farm().Stats().Sent
	w.Run(3 * time.Second)
	w.agree(t)
	if parts := w.nodes[0].Farm().Stats().Sent - before; parts > 200 { // 50 parts, 15 heartbeats and a bit
		t.Errorf("%d messages for one snapshot of 50 parts", parts)
	}
}

// The last message of a node is lost, and nothing follows it.
func TestLastMessageIsLost(t *testing.T) {
	w := newWorld(t, 1, 3, lan, false)
	w.start(t)
	w.Run(time.Second)
	w.Network.Loss = 1
	w.grow(w.nodes[0], 1)
	w.Network.Loss = 0
	w.Run(time.Second)
	w.agree(t)
	for _, n := range w.nodes[1:] {
		if s := n.Farm().Stats(); s.Missed != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// A state that is kept later than at the other nodes gets what they have, and is asked for what it has.
func TestKeepLater(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	late := w.nodes[1]
	started := late.Started
	late.Started = nil
	w.start(t)
	w.grow(w.nodes[0], 1)
	w.Run(3 * time.Second)
	asked := w.nodes[0].Farm().Stats().Snapshots
	if asked != 0 {
		t.Errorf("%d snapshots were asked for that there are not", asked)
	}
	started(late)
	w.sets[late].own = []string{"what was there before"}
	w.sets[late].has["what was there before"] = true
	w.Run(time.Second)
	w.agree(t)
}

func TestKeepAgain(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	w.start(t)
	a := w.nodes[0]
	other := &set{farm: a.Farm(), has: map[string]bool{}}
	if _, err := a.Farm().Keep(topic, other); err == nil {
		t.Error("a topic is shared twice")
	}
	stop, err := a.Farm().Keep("other", other)
	if err != nil {
		t.Fatal(err)
	}
	b := &set{farm: w.nodes[1].Farm(), has: map[string]bool{}}
	if _, err := b.farm.Keep("other", b); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	stop()
	if err := a.Farm().Send("other", nil); err == nil {
		t.Error("what is not shared was sent")
	}
	b.has["meanwhile"], b.own = true, []string{"meanwhile"}
	if err := b.farm.Send("other", []byte("meanwhile")); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	if len(other.has) != 0 {
		t.Error("it was told after it was stopped")
	}
	if _, err := a.Farm().Keep("other", other); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	if !other.has["meanwhile"] {
		t.Error("it was not told what happened meanwhile")
	}
}

// A state that errs and panics is counted, and harms nothing else.
type broken struct{ panics bool }

func (b broken) Hear(farm.Node, []byte, time.Time) error {
	if b.panics {
		panic("broken")
	}
	return errors.New("no sense")
}
func (b broken) Snapshot(_ time.Time, give func([]byte) bool) {
	give(make([]byte, farm.MaxPlain+1))
	give([]byte("x"))
	panic("broken")
}

func TestBrokenState(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	w.start(t)
	for i, n := range w.nodes {
		if _, err := n.Farm().Keep("broken", broken{i == 0}); err != nil {
			t.Fatal(err)
		}
	}
	w.Run(time.Second)
	w.grow(w.nodes[0], 1)
	w.Run(time.Second)
	for _, n := range w.nodes {
		if s := n.Farm().Stats(); s.Malformed != 1 || len(w.sets[n].has) != 1 {
			t.Errorf("%s: %+v", n.Name, s)
		}
	}
}

func TestBounds(t *testing.T) {
	w := newWorld(t, 1, 1, lan, false)
	w.start(t)
	f := w.nodes[0].Farm()
	if err := f.Send(topic, make([]byte, farm.MaxPlain)); err != nil {
		t.Error(err)
	}
	if err := f.Send(topic, make([]byte, farm.MaxPlain+1)); !errors.Is(err, farm.ErrTooLarge) {
		t.Error(err)
	}
	_, err := f.Ask(context.Background(), f.Self(), topic, make([]byte, farm.MaxPlain+1))
	if !errors.Is(err, farm.ErrTooLarge) {
		t.Error(err)
	}
	for _, name := range []string{"", "no topic", "farm.heartbeat", strings.Repeat("t", farm.MaxTopic+1)} {
		if _, err := f.Keep(name, broken{}); err == nil {
			t.Errorf("%q is a topic", name)
		}
		if _, err := f.Answer(name, nil); err == nil {
			t.Errorf("%q is a topic", name)
		}
	}
	answer := func(farm.Node, []byte) ([]byte, error) { return nil, nil }
	for i := range farm.MaxTopics + 1 {
		_, err := f.Keep(fmt.Sprintf("t%d", i), broken{})
		if full := i >= farm.MaxTopics-1; full != (err != nil) { // one is kept already
			t.Errorf("topic %d: %v", i, err)
		}
		_, err = f.Answer(fmt.Sprintf("t%d", i), answer)
		if full := i >= farm.MaxTopics; full != (err != nil) {
			t.Errorf("answering %d: %v", i, err)
		}
	}
	bus := farmtest.NewSim(1, lan).Node("x")
	for _, j := range []farm.Joining{
		{},
		{Node: farm.Node{Name: "no name"}},
		{Expected: farm.MaxNodes + 1},
		{Secrets: [][]byte{[]byte("short")}},
	} {
		bus.Options = func(joining *farm.Joining) {
			switch {
			case j.Node.Name != "":
				joining.Node = j.Node
			case j.Expected != 0:
				joining.Expected = j.Expected
			case j.Secrets != nil:
				joining.Secrets = j.Secrets
			default:
				joining.Bus = nil
			}
		}
		if err := bus.Start(); err == nil {
			t.Errorf("%+v joins", j)
		}
	}
}

// Messages that come while nobody calls Advance are bounded.
func TestInbox(t *testing.T) {
	needs.Unwatched(t)
	w := newWorld(t, 1, 2, farmtest.Network{Backlog: 1 << 20, Outbox: 1 << 30}, false)
	w.start(t)
	w.Run(time.Second)
	w.nodes[1].Stop()
	for range farm.MaxInbox + 100 {
		w.grow(w.nodes[0], 1)
	}
	w.Run(500 * time.Millisecond)
	w.nodes[1].Wake()
	if s := w.nodes[1].Farm().Stats(); s.Dropped == 0 {
		t.Error("all messages were taken")
	}
	w.Run(3 * time.Second)
	w.agree(t)
}

func TestAsk(t *testing.T) {
	w := newWorld(t, 1, 3, lan, false)
	w.start(t)
	w.Run(time.Second)
	ctx := context.Background()
	a, b := w.nodes[0], w.nodes[1]
	stop, err := b.Farm().Answer(topic, func(from farm.Node, msg []byte) ([]byte, error) {
		switch string(msg) {
		case "panic":
			panic("broken")
		case "error":
			return nil, errors.New("no such stamp")
		case "large":
			return make([]byte, farm.MaxPlain), nil
		}
		return append([]byte(from.Name+" asks: "), msg...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Farm().Answer(topic, nil); err == nil {
		t.Error("a topic is answered twice")
	}
	self := b.Farm().Self()
	if got, err := a.Farm().Ask(ctx, self, topic, []byte("well?")); err != nil || string(got) != "a asks: well?" {
		t.Errorf("%q %v", got, err)
	}
	for _, what := range []string{"panic", "error", "large"} {
		if _, err := a.Farm().Ask(ctx, self, topic, []byte(what)); err == nil || !strings.HasPrefix(err.Error(), "b answers: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	gone := func(why string, to farm.Node) {
		t.Helper()
		if _, err := a.Farm().Ask(ctx, to, topic, nil); !errors.Is(err, farm.ErrGone) {
			t.Errorf("%s: %v", why, err)
		}
	}
	gone("an earlier run", farm.Node{Name: "b", Boot: self.Boot - 1})
	gone("nobody", farm.Node{Name: "x", Boot: 1})
	gone("no answer there", w.nodes[2].Farm().Self())

	b.Stop()
	if _, err := a.Farm().Ask(ctx, self, topic, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped node: %v", err)
	}
	gone("after one timeout", self)
	b.Wake()
	w.Run(500 * time.Millisecond)
	if _, err := a.Farm().Ask(ctx, self, topic, nil); err != nil {
		t.Errorf("after it was heard again: %v", err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	gone("that run has ended", self)
	w.Run(time.Second)
	gone("that run has ended", self)
	stop()
}

// A question of a node that is not known yet is not answered, and one that is repeated is answered once.
func TestQuestionsOfOthers(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	var bus farm.Bus
	w.nodes[0].Wrap = func(inner farm.Bus) farm.Bus { bus = inner; return inner }
	w.start(t)
	w.Run(time.Second)
	b := w.nodes[1].Farm()
	times := 0
	if _, err := b.Answer(topic, func(farm.Node, []byte) ([]byte, error) { times++; return nil, nil }); err != nil {
		t.Fatal(err)
	}
	sealer, err := farm.NewSealer([][]byte{[]byte(farmtest.Secret)})
	if err != nil {
		t.Fatal(err)
	}
	to := b.Self().Address()
	for _, test := range []struct {
		from  farm.Node
		times int
	}{{w.nodes[0].Farm().Self(), 1}, {farm.Node{Name: "x", Boot: 1}, 0}, {farm.Node{Name: "a", Boot: 1}, 0}} {
		msg, err := sealer.Seal(farm.Purpose{Topic: topic, To: to}, test.from, 9, nil)
		if err != nil {
			t.Fatal(err)
		}
		times = 0
		for range 3 {
			bus.Ask(context.Background(), to, topic, msg)
		}
		if times != test.times {
			t.Errorf("%v was answered %d times, want %d", test.from, times, test.times)
		}
	}
	if _, err := bus.Ask(context.Background(), to, topic, []byte("no question")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if n := b.Stats().Malformed; n != 1 {
		t.Errorf("%d malformed", n)
	}
}
