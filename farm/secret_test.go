package farm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

var oldSecret, newSecret = []byte("the old secret of the farm"), []byte("the new secret of the farm")

func TestAnotherSecret(t *testing.T) {
	w := newWorld(t, 1, 3, lan, false)
	stranger := w.nodes[2]
	stranger.Secrets = [][]byte{newSecret}
	var log bytes.Buffer
	w.nodes[0].Options = func(j *farm.Joining) { j.Log = slog.New(slog.NewTextHandler(&log, nil)) }
	w.start(t)
	w.Run(10 * time.Second)
	a := w.nodes[0]
	sees(t, a, "b up, c refused")
	sees(t, stranger, "a refused, b refused")
	m := a.Farm().Members(a.Clock())[2]
	if !strings.HasPrefix(m.Why, "it has another farm.secret (fingerprint ") || !strings.Contains(m.Why, ", ours is ") {
		t.Error(m.Why)
	}
	if n := a.Farm().Stats().Strangers; n < 40 {
		t.Errorf("%d messages were counted", n)
	}
	if n := strings.Count(log.String(), "not let into the farm"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, log.String())
	}
	w.grow(stranger, 1)
	w.Run(time.Second)
	if len(w.sets[a].has) != 0 {
		t.Error("a stranger was heard")
	}
	if _, err := a.Farm().Ask(context.Background(), stranger.Farm().Self(), topic, nil); !errors.Is(err, farm.ErrGone) {
		t.Errorf("asking a stranger: %v", err)
	}
	stranger.Kill()
	w.Run(61 * time.Second)
	sees(t, a, "b up")
	stranger.Secrets = [][]byte{[]byte(farmtest.Secret)}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	sees(t, a, "b up, c up")
}

// spoil is a bus that changes what is sent.
type spoil struct {
	farm.Bus
	change func(topic string, msg []byte) []byte
}

func (s spoil) Send(topic string, msg []byte) error { return s.Bus.Send(topic, s.change(topic, msg)) }

func TestAnotherMajor(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	w.nodes[1].Wrap = func(bus farm.Bus) farm.Bus {
		return spoil{bus, func(_ string, msg []byte) []byte { return append([]byte{2}, msg[1:]...) }}
	}
	w.start(t)
	w.Run(time.Second)
	m := w.nodes[0].Farm().Members(w.Now())[1]
	if m.State != farm.Refused || !strings.HasPrefix(m.Why, "it speaks version 2 of the farm's language, this node speaks 1: upgrade") {
		t.Errorf("%+v", m)
	}
}

func TestStrangersAreBounded(t *testing.T) {
	w := newWorld(t, 1, 1, lan, false)
	sealer, err := farm.NewSealer([][]byte{newSecret})
	if err != nil {
		t.Fatal(err)
	}
	var bus farm.Bus
	b := w.add(t, "b", false)
	b.Wrap = func(inner farm.Bus) farm.Bus { bus = inner; return inner }
	w.start(t)
	for i := range 100 {
		for range 3 {
			msg, err := sealer.Seal(farm.Purpose{Topic: "farm.heartbeat"}, farm.Node{Name: fmt.Sprintf("s%d", i), Boot: 1}, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := bus.Send("farm.heartbeat", msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Run(time.Second)
	a := w.nodes[0]
	if n := len(a.Farm().Members(a.Clock())); n != 2+16 {
		t.Errorf("%d members and strangers are shown", n)
	}
	if n := a.Farm().Stats().Strangers; n != 300 {
		t.Errorf("%d were counted", n)
	}
	if err := bus.Send("farm.heartbeat", []byte("no message")); err != nil {
		t.Fatal(err)
	}
	w.Run(61 * time.Second)
	sees(t, a, "b up")
	if n := a.Farm().Stats().Malformed; n != 1 {
		t.Errorf("%d were malformed", n)
	}
}

// The secret is changed node by node, while they run on together.
func TestRotation(t *testing.T) {
	w := newWorld(t, 1, 3, lan, true)
	for _, n := range w.nodes {
		n.Secrets = [][]byte{oldSecret}
	}
	w.start(t)
	w.Run(time.Second)
	for _, secrets := range [][][]byte{{oldSecret, newSecret}, {newSecret, oldSecret}, {newSecret}} {
		for _, n := range w.nodes {
			n.Secrets = secrets
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
			w.grow(n, 1)
			for range 20 {
				w.Run(100 * time.Millisecond)
				for _, other := range w.nodes {
					for _, m := range other.Farm().Members(other.Clock())[1:] {
						if m.State != farm.Up {
							t.Fatalf("%s sees %s", other.Name, states(other))
						}
					}
				}
			}
			w.agree(t)
		}
	}
	if n := len(w.sets[w.nodes[0]].has); n != 9 {
		t.Errorf("%d things of 9", n)
	}
}

// What nodes said, sent again to those that were not there then, brings nobody back.
func TestReplaysMakeNoPhantom(t *testing.T) {
	type message struct {
		topic string
		msg   []byte
	}
	var record []message
	var bus farm.Bus
	w := newWorld(t, 1, 3, lan, false)
	for _, n := range w.nodes {
		n.Wrap = func(inner farm.Bus) farm.Bus {
			bus = inner
			return spoil{inner, func(topic string, msg []byte) []byte {
				record = append(record, message{topic, bytes.Clone(msg)})
				return msg
			}}
		}
	}
	w.start(t)
	w.Run(2 * time.Second)
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	for _, n := range w.nodes {
		if err := n.Farm().Leave(context.Background()); err != nil {
			t.Fatal(err)
		}
		n.Kill()
		n.Wrap, n.Kept = nil, nil
	}
	a.Wrap = func(inner farm.Bus) farm.Bus { bus = inner; return inner }
	again(t, a)
	again(t, b)
	w.Run(time.Second)
	for _, m := range record {
		if err := bus.Send(m.topic, m.msg); err != nil { // to b
			t.Fatal(err)
		}
		w.Run(10 * time.Millisecond)
	}
	sees(t, b, "a up")
	again(t, c)
	w.Run(time.Second)
	sees(t, b, "a up, c up")
}

// Whoever records what is sent and sends it again does no harm.
func TestReplays(t *testing.T) {
	needs.Unwatched(t)
	type message struct {
		topic string
		msg   []byte
	}
	var record []message
	var bus farm.Bus
	recording := true
	w := newWorld(t, 1, 3, lan, true)
	for _, n := range w.nodes {
		n.Wrap = func(inner farm.Bus) farm.Bus {
			bus = inner
			return spoil{inner, func(topic string, msg []byte) []byte {
				if recording {
					record = append(record, message{topic, bytes.Clone(msg)})
				}
				return msg
			}}
		}
	}
	w.start(t)
	for range 20 {
		w.grow(w.nodes[0], 1)
		w.Run(100 * time.Millisecond)
	}
	if err := w.nodes[1].Start(); err != nil { // the record has two runs of b
		t.Fatal(err)
	}
	w.Run(time.Second)
	// The second run of a says goodbye, and the third one joins.
	if err := w.nodes[0].Start(); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	if err := w.nodes[0].Farm().Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	if err := w.nodes[0].Start(); err != nil {
		t.Fatal(err)
	}
	w.Run(3 * time.Second)
	w.agree(t)
	recording = false
	before := map[string]farm.Stats{}
	for _, n := range w.nodes {
		before[n.Name] = n.Farm().Stats()
		n.Farm().Watch(func(m farm.Member) {
			if m.State != farm.Up && m.State != farm.Here {
				t.Errorf("%s was told that %s is %s", n.Name, m.Name, m.State)
			}
		})
	}
	for range 2 {
		for _, m := range record {
			if err := bus.Send(m.topic, m.msg); err != nil { // to all but a, whose bus it is
				t.Fatal(err)
			}
			w.Run(time.Millisecond)
		}
	}
	w.Run(2 * time.Second)
	w.agree(t)
	for _, n := range w.nodes {
		after := n.Farm().Stats()
		if was := before[n.Name]; after.Snapshots != was.Snapshots || after.Missed != was.Missed {
			t.Errorf("%s: %+v, before %+v", n.Name, after, was)
		}
		if of, _ := n.Farm().Share(); of != 3 {
			t.Errorf("%s makes shares of %d", n.Name, of)
		}
	}
	c := w.nodes[2]
	c.Farm().Watch(func(farm.Member) {})
	w.nodes[0].Farm().Watch(func(farm.Member) {})
	w.nodes[1].Kill()
	for range 10 { // a recorded heartbeat neither keeps a node up nor brings an earlier run back
		w.Run(200 * time.Millisecond)
		for _, m := range record {
			if err := bus.Send(m.topic, m.msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	sees(t, c, "a up, b lost")
}
