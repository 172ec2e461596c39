package nats

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// TestOutbox: bytes and messages are bounded, and what goes makes room.
func TestOutbox(t *testing.T) {
	o := newOutbox()
	big := letter{msg: make([]byte, maxOutbox/4)}
	for range 4 {
		if err := o.put(big); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.put(letter{msg: []byte{0}}); !errors.Is(err, farm.ErrOutbox) {
		t.Errorf("a byte above the bound: %v", err)
	}
	batch := o.take(nil)
	if len(batch) != 4 || o.waiting() != maxOutbox {
		t.Errorf("%d letters are taken, %d bytes wait", len(batch), o.waiting())
	}
	if err := o.put(letter{msg: []byte{0}}); !errors.Is(err, farm.ErrOutbox) {
		t.Errorf("what is being sent still waits: %v", err)
	}
	for i := range batch {
		o.sent(&batch[i])
	}
	for range maxOutboxMessages {
		if err := o.put(letter{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.put(letter{}); !errors.Is(err, farm.ErrOutbox) {
		t.Errorf("a message above the bound: %v", err)
	}
	o.close()
	if err := o.put(letter{}); !errors.Is(err, farm.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if n := o.abandon(); n != maxOutboxMessages || o.waiting() != 0 || o.take(batch) != nil {
		t.Errorf("%d were given up, %d bytes are left", n, o.waiting())
	}
}

// TestStuckServer: a server that reads nothing keeps nobody waiting who sends.
func TestStuckServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var book logbook
	o := external("a", "nats://user:pass-word@"+l.Addr().String())
	o.Log = book.logger()
	b := open(t, o)
	full := make([]byte, farm.MaxMessage)
	sent := 0
	for err = b.Send("t", full); err == nil; err = b.Send("t", full) {
		if sent++; sent > 2*(maxOutbox+reconnectBuf)/farm.MaxMessage {
			break // what does not fit is dropped and counted
		}
	}
	if err != nil && !errors.Is(err, farm.ErrOutbox) {
		t.Error(err)
	}
	needs.Wait(t, "messages are dropped", func() bool {
		_ = b.Send("t", full)
		return b.Stats().Dropped > 0
	})
	if strings.Contains(book.String(), "pass-word") {
		t.Errorf("the password stands in the log:\n%s", book.String())
	}
	if book.count("no NATS server answers at "+l.Addr().String()) != 1 {
		t.Errorf("the log does not say that the server is away:\n%s", book.String())
	}
}

func TestBadAddressTellsNoPassword(t *testing.T) {
	for _, url := range []string{"nats://user:pass word@host:4222", "http://user:password@host", "nats://", "nats://a:%zz@b"} {
		b, err := Open(external("a", url))
		if err == nil {
			closeBus(t, b)
			t.Errorf("%s: it opens", url)
		} else if strings.Contains(err.Error(), "pass") || strings.Contains(err.Error(), "zz") {
			t.Error(err)
		}
	}
}

// TestServerRestarts: the bus is there before its server, and finds it again.
func TestServerRestarts(t *testing.T) {
	port := freePort()
	url := "nats://user:pass-word@127.0.0.1:" + port
	var book logbook
	first := external("a", url)
	first.Log = book.logger()
	a, b := open(t, first), open(t, external("b", url))
	at, err := net.ResolveTCPAddr("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	start := func() *server.Server {
		return natsServer(t, &server.Options{Port: at.Port, Username: "user", Password: "pass-word"})
	}
	s := start()
	met(t, a, b)
	s.Shutdown()
	needs.Wait(t, "the server is missed", func() bool { return book.count("the NATS server is away") == 1 })
	start()
	met(t, a, b)
	needs.Wait(t, "the server is back", func() bool { return book.count("connected again to the NATS server") == 1 })
	if strings.Contains(book.String(), "pass-word") {
		t.Errorf("the password stands in the log:\n%s", book.String())
	}
}

// TestPanics: a callback that panics is logged, and the next message is heard.
func TestPanics(t *testing.T) {
	var book logbook
	second := optionsOf("b")
	second.Log = book.logger()
	a, b := open(t, optionsOf("a")), open(t, second)
	meet(t, a, b)
	met(t, a, b)
	var heard atomic.Int64
	if _, err := b.Hear("t", func([]byte) { heard.Add(1); panic("hear") }); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Answer("b.1", "t", func(msg []byte) []byte {
		if len(msg) == 0 {
			panic("answer")
		}
		return msg
	}); err != nil {
		t.Fatal(err)
	}
	needs.Wait(t, "messages are heard after a panic", func() bool {
		if err := a.Send("t", nil); err != nil {
			t.Fatal(err)
		}
		return heard.Load() > 1
	})
	askable(t, a, "b.1", "t")
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		if _, err := a.Ask(ctx, "b.1", "t", nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	needs.Wait(t, "the panic is logged", func() bool { return book.count("panic=answer") == 1 && book.count("panic=hear") > 1 })
	cancel()
	asking.Wait()
	askable(t, a, "b.1", "t")
}

// askable waits until a node answers.
func askable(t testing.TB, from *Bus, to, topic string) {
	t.Helper()
	needs.Wait(t, to+" answers", func() bool {
		got, err := from.Ask(t.Context(), to, topic, []byte("hello"))
		return err == nil && string(got) == "hello"
	})
}

// TestAnswersAreBounded: so many questions at once and no more.
func TestAnswersAreBounded(t *testing.T) {
	a, b := open(t, optionsOf("a")), open(t, optionsOf("b"))
	meet(t, a, b)
	met(t, a, b)
	var busy atomic.Int64
	release := make(chan struct{})
	if _, err := b.Answer("b.1", "t", func(msg []byte) []byte {
		if string(msg) != "hello" {
			busy.Add(1)
			<-release
		}
		return msg
	}); err != nil {
		t.Fatal(err)
	}
	askable(t, a, "b.1", "t")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asking sync.WaitGroup
	var answered atomic.Int64
	for range maxAnswers + 1 {
		asking.Go(func() {
			if _, err := a.Ask(ctx, "b.1", "t", []byte("wait")); err == nil {
				answered.Add(1)
			}
		})
	}
	needs.Wait(t, "one question too many is dropped", func() bool {
		return busy.Load() == maxAnswers && b.Stats().Dropped == 1
	})
	close(release)
	needs.Wait(t, "the others are answered", func() bool { return answered.Load() == maxAnswers })
	cancel()
	asking.Wait()
	askable(t, a, "b.1", "t")
}

func TestAsksAreBounded(t *testing.T) {
	a := asks{waiting: map[string]chan answer{}}
	for range maxAsks {
		if _, _, err := a.begin(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := a.begin(); !errors.Is(err, farm.ErrOutbox) {
		t.Errorf("a question above the bound: %v", err)
	}
	a.end("1")
	if _, _, err := a.begin(); err != nil {
		t.Error(err)
	}
}

// TestSlowListener: what comes faster than it is heard is dropped and counted, and nobody else is slowed down.
func TestSlowListener(t *testing.T) {
	a, b, c := three(t)
	met(t, a, b, c)
	release := make(chan struct{})
	entered := make(chan struct{}, 1)
	if _, err := b.Hear("t", func([]byte) {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-release
	}); err != nil {
		t.Fatal(err)
	}
	defer close(release)
	var atC atomic.Int64
	if _, err := c.Hear("t", func([]byte) { atC.Add(1) }); err != nil {
		t.Fatal(err)
	}
	msg := bytes.Repeat([]byte{'x'}, 32<<10)
	needs.Wait(t, "both hear", func() bool {
		_ = a.Send("t", msg)
		return atC.Load() > 0 && len(entered) == 1
	})
	sent := int64(0)
	needs.Wait(t, "the slow one loses messages", func() bool {
		if a.Send("t", msg) == nil {
			sent++
		}
		return b.Stats().Dropped > 0
	})
	needs.Wait(t, "the other one has them all", func() bool { return atC.Load() >= sent })
	met(t, a, b, c) // its other topics are heard
}

// TestNothingIsLeft: a bus that is closed leaves no goroutine behind.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	a, b, c := open(t, optionsOf("a")), open(t, optionsOf("b")), open(t, optionsOf("c"))
	meet(t, a, b, c)
	met(t, a, b, c)
	if _, err := b.Answer("b.1", "t", func(msg []byte) []byte { return msg }); err != nil {
		t.Fatal(err)
	}
	askable(t, a, "b.1", "t")
	lonely := optionsOf("d")
	lonely.Peers = []string{"127.0.0.1:1", "nowhere.invalid:7400"}
	lonely.Resolve = new(names).resolve
	for _, bus := range []*Bus{a, b, c, open(t, lonely), open(t, external("e", "nats://127.0.0.1:1"))} {
		closeBus(t, bus)
	}
	needs.Wait(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// TestCloseWithoutTime: a bus that has no time to send what waits says so, and is closed all the same.
func TestCloseWithoutTime(t *testing.T) {
	b, err := Open(optionsOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := b.Send("t", nil); !errors.Is(err, farm.ErrClosed) {
		t.Error(err)
	}
}
