package app

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/farm"
	"weir/internal/clock"
	"weir/throttle/stamp"
)

// A twoNodes is a farm of two, without a network. Each side is a stampBus.
type twoNodes struct {
	mu      sync.Mutex
	answers map[string]func(farm.Node, []byte) ([]byte, error) // by name and topic
	hold    chan struct{}                                      // nil, or what answers wait for
}

type side struct {
	*twoNodes
	name string
}

func (s side) Tagged(tag [stamp.TagBytes]byte) (farm.Node, bool) {
	name := strings.TrimRight(string(tag[:]), "\x00")
	return farm.Node{Name: name, Boot: 1}, name == "one" || name == "two"
}

func (s side) Ask(ctx context.Context, to farm.Node, topic string, msg []byte) ([]byte, error) {
	s.mu.Lock()
	answer, hold := s.answers[to.Name+" "+topic], s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if answer == nil {
		return nil, farm.ErrGone
	}
	return answer(farm.Node{Name: s.name, Boot: 1}, msg)
}

func (s side) Answer(topic string, answer func(farm.Node, []byte) ([]byte, error)) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[s.name+" "+topic] != nil {
		return nil, errors.New("somebody answers there already")
	}
	s.answers[s.name+" "+topic] = answer
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.answers, s.name+" "+topic)
	}, nil
}

// TestStampsJoinAFarm: a challenge of one node is paid at the other, refunds go back, and nothing is left when they
// leave.
func TestStampsJoinAFarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, stampsJoinAFarm) // refunds are given up after a moment
}

func stampsJoinAFarm(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	fake := clock.NewFake(now)
	both := &twoNodes{answers: map[string]func(farm.Node, []byte) ([]byte, error){}}
	var at [2]*stamp.Throttle
	var leave [2]func()
	a := &App{opts: Options{Clock: fake}, clock: fake}
	for i, name := range []string{"one", "two"} {
		var err error
		o := stamp.Options{Schedule: []stamp.Step{{Load: 0, Work: 64}}, Covers: 1, Secret: "the same on all nodes"}
		if at[i], err = stamp.NewThrottle(o, now, readList); err != nil {
			t.Fatal(err)
		}
		var tag [stamp.TagBytes]byte
		copy(tag[:], name)
		if leave[i], err = a.joinStamps(side{both, name}, tag, "stamps", at[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.joinStamps(side{both, "one"}, [stamp.TagBytes]byte{}, "stamps", at[0]); err == nil {
		t.Error("a topic is answered twice")
	}
	event := func() *weir.Event {
		return &weir.Event{Time: fake.Now(), Client: "c", Source: netip.MustParseAddr("192.0.2.1")}
	}
	pay := func(i int) string {
		p, err := at[i].Ask(event(), "c", "")
		if err != nil {
			t.Fatal(err)
		}
		s, err := stamp.Solve(context.Background(), p.Text, stamp.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	bring := func(i int, s string) (weir.Paid, func()) {
		return at[i].Receive(context.Background(), event(), s, "")
	}
	s := pay(0)
	paid, refund := bring(1, s)
	if paid.Work == 0 {
		t.Fatalf("%+v", paid)
	}
	if paid, _ := bring(0, s); paid.Fault != weir.Replayed {
		t.Fatalf("%+v", paid)
	}

	// Refunds never wait. Those above the bound are lost.
	both.mu.Lock()
	both.hold = make(chan struct{})
	hold := both.hold
	both.mu.Unlock()
	for range maxRefunds + 1 {
		refund()
	}
	both.mu.Lock()
	both.hold = nil
	both.mu.Unlock()
	close(hold)
	synctest.Wait()
	if paid, _ = bring(0, s); paid.Work == 0 {
		t.Fatal("what was given back never came")
	}

	s = pay(1)
	leave[1]()
	if paid, _ := bring(0, s); paid.Work > 0 || paid.Fault != weir.NoReason {
		t.Errorf("of a node that has left: %+v", paid)
	}
	refund() // does nothing, and must not panic
	leave[0]()
	if len(both.answers) > 0 {
		t.Errorf("%d still answer", len(both.answers))
	}
}

func TestStampTopic(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("x", farm.MaxTopic-len("stamps."))
	if got := topicOf("stamps", fits); got != "stamps."+fits {
		t.Error(got)
	}
	long, other := topicOf("stamps", fits+"x"), topicOf("stamps", fits+"y")
	if len(long) > farm.MaxTopic || long == other {
		t.Error(long, other)
	}
}
