package farmtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// patience is how long the suite waits for what must happen.
const patience = time.Minute

// try is how long it waits for an answer that may have been lost, before it asks again.
const try = 200 * time.Millisecond

// TestBus runs the conformance suite of buses. open returns three of one farm, which the suite closes. They may still
// be connecting.
func TestBus(t *testing.T, open func(t *testing.T) (a, b, c farm.Bus)) {
	for name, test := range map[string]func(t *testing.T, a, b, c farm.Bus){
		"send reaches all others":      testSend,
		"order of one sender":          testOrder,
		"topics are apart":             testTopics,
		"names":                        testNames,
		"ask":                          testAsk,
		"a question waits for nobody":  testAskAtOnce,
		"ask until the deadline":       testAskDeadline,
		"sizes":                        testSizes,
		"stop":                         testStop,
		"close sends what waits":       testClose,
		"close ends those who ask":     testCloseAsking,
		"what is sent is not kept":     testReuse,
		"stats count":                  testStats,
		"a bus that is closed is gone": testGone,
	} {
		t.Run(name, func(t *testing.T) {
			a, b, c := open(t)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				for _, bus := range []farm.Bus{a, b, c} {
					if err := bus.Close(ctx); err != nil {
						t.Errorf("Close: %v", err)
					}
				}
			})
			test(t, a, b, c)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// probe is a message that ears do not keep.
const probe = "?"

// An ear keeps what it hears.
type ear struct {
	topic string
	stop  func()

	mu     sync.Mutex
	probes int
	heard  []string
}

// listen hears a topic, and returns when what the speakers say arrives.
func listen(t *testing.T, bus farm.Bus, topic string, speakers ...farm.Bus) *ear {
	t.Helper()
	e := &ear{topic: topic}
	var err error
	e.stop, err = bus.Hear(topic, func(msg []byte) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if string(msg) == probe {
			e.probes++
			return
		}
		e.heard = append(e.heard, string(msg))
	})
	must(t, err)
	for _, from := range speakers {
		before := e.probed()
		needs.Wait(t, "a bus hears another one", func() bool {
			must(t, from.Send(topic, []byte(probe)))
			return e.probed() > before
		})
	}
	return e
}

func (e *ear) probed() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.probes
}

func (e *ear) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

// hears waits until the ear has heard just these.
func (e *ear) hears(t *testing.T, want ...string) {
	t.Helper()
	needs.Wait(t, e.topic+" hears "+strings.Join(want, ", "), func() bool { return len(e.all()) >= len(want) })
	if got := e.all(); !slices.Equal(got, want) {
		t.Errorf("%s: heard %q, want %q", e.topic, got, want)
	}
}

func testSend(t *testing.T, a, b, c farm.Bus) {
	atA, atB, atC := listen(t, a, "t", b, c), listen(t, b, "t", a, c), listen(t, c, "t", a, b)
	second := listen(t, b, "t", a) // two may hear the same
	must(t, a.Send("t", []byte("from a")))
	atB.hears(t, "from a")
	atC.hears(t, "from a")
	second.hears(t, "from a")
	must(t, b.Send("t", []byte("from b")))
	atA.hears(t, "from b") // and not what a has said
	atC.hears(t, "from a", "from b")
	must(t, c.Send("t", nil))
	atA.hears(t, "from b", "")
	atB.hears(t, "from a", "")
}

func testOrder(t *testing.T, a, b, c farm.Bus) {
	const messages = 5000
	atB, atC := listen(t, b, "t", a, c), listen(t, c, "t", a, b)
	for n := range uint32(messages) {
		send(t, a, "t", binary.BigEndian.AppendUint32(nil, n))
	}
	for _, e := range []*ear{atB, atC} {
		needs.Wait(t, "all messages are heard", func() bool { return len(e.all()) == messages })
		if got := e.all(); !slices.IsSorted(got) {
			t.Error("the messages of one sender came in another order")
		}
	}
}

// send sends when there is room in the outbox.
func send(t *testing.T, bus farm.Bus, topic string, msg []byte) {
	t.Helper()
	needs.Wait(t, "there is room in the outbox", func() bool {
		err := bus.Send(topic, msg)
		if err != nil && !errors.Is(err, farm.ErrOutbox) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func testTopics(t *testing.T, a, b, _ farm.Bus) {
	one, two, below := listen(t, b, "one", a), listen(t, b, "two", a), listen(t, b, "one.more", a)
	must(t, a.Send("two", []byte("2")))
	must(t, a.Send("one.more", []byte("1.1")))
	must(t, a.Send("one", []byte("1")))
	one.hears(t, "1")
	two.hears(t, "2")
	below.hears(t, "1.1")
}

func testNames(t *testing.T, a, b, _ farm.Bus) {
	longest := strings.Repeat("t", farm.MaxTopic)
	heard := listen(t, b, longest, a)
	must(t, a.Send(longest, []byte("long")))
	heard.hears(t, "long")
	for _, bad := range []string{"", ".", "a..b", ".a", "a.", "a b", "a*", ">", "a\r\n", "ä", longest + "t"} {
		if a.Send(bad, nil) == nil {
			t.Errorf("Send with the topic %q succeeded", bad)
		}
		if _, err := a.Hear(bad, func([]byte) {}); err == nil {
			t.Errorf("Hear of the topic %q succeeded", bad)
		}
		if _, err := a.Answer("a.1", bad, func([]byte) []byte { return nil }); err == nil {
			t.Errorf("Answer of the topic %q succeeded", bad)
		}
		if _, err := a.Ask(t.Context(), "a.1", bad, nil); err == nil || errors.Is(err, farm.ErrGone) {
			t.Errorf("Ask with the topic %q: %v", bad, err)
		}
	}
	if _, err := a.Ask(t.Context(), "a *", "t", nil); err == nil || errors.Is(err, farm.ErrGone) {
		t.Errorf("Ask of a node that cannot be: %v", err)
	}
}

// ask asks as soon as the node is known.
func ask(t *testing.T, bus farm.Bus, to, topic string, msg []byte) (answer []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	needs.Wait(t, "the node answers", func() bool {
		var err error
		answer, err = bus.Ask(ctx, to, topic, msg)
		if err != nil && !errors.Is(err, farm.ErrGone) {
			t.Fatal(err)
		}
		return err == nil
	})
	return answer
}

// gone asks until the node is known to be gone. A question that was under way at that moment may have no answer.
func gone(t *testing.T, bus farm.Bus, to, topic string) {
	t.Helper()
	needs.Wait(t, to+" is gone", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), try)
		defer cancel()
		_, err := bus.Ask(ctx, to, topic, nil)
		return errors.Is(err, farm.ErrGone)
	})
}

func testAsk(t *testing.T, a, b, c farm.Bus) {
	answer := func(bus farm.Bus, node, topic, with string) (stop func()) {
		stop, err := bus.Answer(node, topic, func(msg []byte) []byte { return []byte(with + string(msg)) })
		must(t, err)
		return stop
	}
	stop := answer(b, "b.1", "t", "b says ")
	answer(b, "b.1", "other", "b says otherwise ")
	answer(c, "c.1", "t", "c says ")
	for _, x := range []struct {
		from            farm.Bus
		to, topic, want string
	}{
		{a, "b.1", "t", "b says x"},
		{a, "b.1", "other", "b says otherwise x"},
		{a, "c.1", "t", "c says x"},
		{b, "c.1", "t", "c says x"},
		{c, "b.1", "t", "b says x"},
	} {
		if got := string(ask(t, x.from, x.to, x.topic, []byte("x"))); got != x.want {
			t.Errorf("%s %s: %q, want %q", x.to, x.topic, got, x.want)
		}
	}
	for _, nobody := range []string{"d.1", "b.2", "b"} {
		if _, err := a.Ask(t.Context(), nobody, "t", nil); !errors.Is(err, farm.ErrGone) {
			t.Errorf("Ask of %s, which is not there: %v", nobody, err)
		}
	}
	stop()
	stop()
	gone(t, a, "b.1", "t")
}

func testAskAtOnce(t *testing.T, a, b, _ farm.Bus) {
	second := make(chan struct{})
	_, err := b.Answer("b.1", "t", func(msg []byte) []byte {
		switch string(msg) {
		case "first":
			<-second
		case "second":
			close(second)
		}
		return msg
	})
	must(t, err)
	ask(t, a, "b.1", "t", []byte("hello"))
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := a.Ask(t.Context(), "b.1", "t", []byte("first")); err != nil || string(got) != "first" {
			t.Errorf("%q, %v", got, err)
		}
	})
	if got, err := a.Ask(t.Context(), "b.1", "t", []byte("second")); err != nil || string(got) != "second" {
		t.Errorf("%q, %v", got, err)
	}
	wg.Wait()
}

func testAskDeadline(t *testing.T, a, b, _ farm.Bus) {
	asked := make(chan struct{}, 1)
	_, err := b.Answer("b.1", "t", func(msg []byte) []byte {
		if string(msg) == "wait" {
			asked <- struct{}{}
			return nil
		}
		return []byte{}
	})
	must(t, err)
	if got := ask(t, a, "b.1", "t", nil); len(got) != 0 {
		t.Errorf("an empty answer: %q", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked // an answer of nil is none
		cancel(context.Canceled)
	}()
	if _, err := a.Ask(ctx, "b.1", "t", []byte("wait")); !errors.Is(err, context.Canceled) {
		t.Errorf("a question that is given up: %v", err)
	}
	over, cancelOver := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelOver()
	if _, err := a.Ask(over, "b.1", "t", []byte("late")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a question after its deadline: %v", err)
	}
}

func testSizes(t *testing.T, a, b, _ farm.Bus) {
	full := bytes.Repeat([]byte{'x'}, farm.MaxMessage)
	heard := listen(t, b, "t", a)
	must(t, a.Send("t", full))
	heard.hears(t, string(full))
	if err := a.Send("t", append(full, 'x')); !errors.Is(err, farm.ErrTooLarge) {
		t.Errorf("Send of a message above the bound: %v", err)
	}
	_, err := b.Answer("b.1", "t", func(msg []byte) []byte { return msg })
	must(t, err)
	if got := ask(t, a, "b.1", "t", full); !bytes.Equal(got, full) {
		t.Errorf("the answer has %d bytes", len(got))
	}
	if _, err := a.Ask(t.Context(), "b.1", "t", append(full, 'x')); !errors.Is(err, farm.ErrTooLarge) {
		t.Errorf("Ask with a message above the bound: %v", err)
	}
}

func testStop(t *testing.T, a, b, _ farm.Bus) {
	stopped, goes := listen(t, b, "t", a), listen(t, b, "t", a)
	must(t, a.Send("t", []byte("1")))
	stopped.hears(t, "1")
	stopped.stop()
	stopped.stop()
	must(t, a.Send("t", []byte("2")))
	goes.hears(t, "1", "2")
	stopped.hears(t, "1")
	again := listen(t, b, "t", a)
	must(t, a.Send("t", []byte("3")))
	again.hears(t, "3")
	stopped.hears(t, "1")
}

func testClose(t *testing.T, a, b, _ farm.Bus) {
	const messages = 500
	heard := listen(t, b, "t", a)
	for range messages {
		send(t, a, "t", []byte("last words"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, a.Close(ctx))
	needs.Wait(t, "all is heard that was sent before", func() bool { return len(heard.all()) == messages })
	must(t, a.Close(ctx))
	if err := a.Send("t", nil); !errors.Is(err, farm.ErrClosed) {
		t.Errorf("Send: %v", err)
	}
	if _, err := a.Hear("t", func([]byte) {}); !errors.Is(err, farm.ErrClosed) {
		t.Errorf("Hear: %v", err)
	}
	if _, err := a.Answer("a.1", "t", func([]byte) []byte { return nil }); !errors.Is(err, farm.ErrClosed) {
		t.Errorf("Answer: %v", err)
	}
	if _, err := a.Ask(ctx, "b.1", "t", nil); !errors.Is(err, farm.ErrClosed) {
		t.Errorf("Ask: %v", err)
	}
	heard.stop()
}

func testCloseAsking(t *testing.T, a, b, _ farm.Bus) {
	asked := make(chan struct{}, 1)
	_, err := b.Answer("b.1", "t", func(msg []byte) []byte {
		if string(msg) == "wait" {
			asked <- struct{}{}
			return nil
		}
		return msg
	})
	must(t, err)
	ask(t, a, "b.1", "t", []byte("hello"))
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := a.Ask(t.Context(), "b.1", "t", []byte("wait")); !errors.Is(err, farm.ErrClosed) {
			t.Errorf("Ask while the bus is closed: %v", err)
		}
	})
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, a.Close(ctx))
	wg.Wait()
}

func testReuse(t *testing.T, a, b, _ farm.Bus) {
	heard := listen(t, b, "t", a)
	msg := []byte{'0'}
	want := make([]string, 10)
	for i := range want {
		msg[0] = byte('0' + i)
		want[i] = string(msg)
		must(t, a.Send("t", msg))
	}
	heard.hears(t, want...)
}

func testStats(t *testing.T, a, b, _ farm.Bus) {
	heard := listen(t, b, "t", a)
	sent, received := a.Stats().Sent, b.Stats().Received
	for range 10 {
		must(t, a.Send("t", []byte("x")))
	}
	needs.Wait(t, "all are heard", func() bool { return len(heard.all()) == 10 })
	needs.Wait(t, "nothing waits", func() bool { return a.Stats().Waiting == 0 })
	if s := a.Stats(); s.Sent < sent+10 || s.Dropped != 0 || len(s.Refused) != 0 {
		t.Errorf("the sender: %+v", s)
	}
	if s := b.Stats(); s.Received < received+10 || s.Dropped != 0 || len(s.Refused) != 0 {
		t.Errorf("the receiver: %+v", s)
	}
}

func testGone(t *testing.T, a, b, c farm.Bus) {
	_, err := b.Answer("b.1", "t", func(msg []byte) []byte { return msg })
	must(t, err)
	ask(t, a, "b.1", "t", []byte("hello"))
	heard := listen(t, c, "t", a)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, b.Close(ctx))
	gone(t, a, "b.1", "t")
	must(t, a.Send("t", []byte("the others go on")))
	heard.hears(t, "the others go on")
}
