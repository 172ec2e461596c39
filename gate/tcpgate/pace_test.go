package tcpgate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/quota"
)

// paced lets the clock run whenever a pause is waited for, until done. One timer is the one that looks for idleness.
func (r *rig) paced(done <-chan struct{}) {
	const step = 10 * time.Millisecond
	for {
		select {
		case <-done:
			return
		case <-r.clock.Set():
		}
		for r.clock.Pending() > 1 {
			r.clock.Advance(step)
		}
	}
}

// A byte limit makes a transfer take its time, in either direction, and loses nothing.
func TestPace(t *testing.T) {
	const rate, size = 256 << 10, 4 << 20
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(text)
	for name, up := range map[string]bool{"up": true, "down": false} {
		t.Run(name, func(t *testing.T) {
			q := newQuota(t, quota.Policy{Name: "traffic", Kind: quota.Volume, Limit: quota.Bytes(rate),
				Period: weir.Period{Length: time.Second},
				Window: quota.GCRA, Over: quota.OverDelay, Delay: quota.Delay{MaxWait: weir.Duration(time.Minute)}})
			upstream, conns := caught(t)
			g := start(t, Options{Upstream: upstream}, q)
			client := g.dial()
			from, to := client, receive(t, conns)
			if !up {
				from, to = to, from
			}
			done := make(chan struct{})
			go func() {
				_, _ = from.Write(text)
				_ = from.CloseWrite()
			}()
			go func() {
				defer close(done)
				got, err := io.ReadAll(to)
				if err != nil || !bytes.Equal(got, text) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			}()
			g.paced(done)
			took := g.clock.Now().Sub(epoch)
			least := time.Duration(size-rate-chunkSize) * time.Second / rate // a second's worth may come at once
			if took < least || took > least+time.Second {
				t.Errorf("took %s, want %s", took, least)
			}
		})
	}
}

// A pause of one direction does not hold up the other, may last longer than any idleness, and is ended by a stop.
func TestPause(t *testing.T) {
	const pause = time.Hour
	m := &meter{throttle: newThrottle(nil)}
	m.flow = func(n int64, now time.Time) time.Time {
		if n == 5 { // the client's greeting
			return now.Add(pause)
		}
		return time.Time{}
	}
	upstream, conns := caught(t)
	g := start(t, Options{Upstream: upstream, Timeouts: Timeouts{Idle: weir.Duration(time.Minute)}}, m)
	client := g.dial()
	up := receive(t, conns)
	send(t, client, "hello")
	expect(t, up, "hello")
	needs.Wait(t, "a pause", func() bool { return g.clock.Pending() == 2 })
	send(t, client, "world!")
	send(t, up, "ok")
	expect(t, client, "ok")
	needs.Wait(t, "noted", func() bool { return g.seen.out.Load() == 2 })
	for range 59 {
		g.clock.Advance(time.Minute)
	}
	if in := g.seen.in.Load(); in != 5 {
		t.Errorf("%d bytes went on during the pause", in)
	}
	g.clock.Advance(time.Minute)
	expect(t, up, "world!")
	send(t, client, "hello")
	needs.Wait(t, "a pause", func() bool { return g.clock.Pending() == 2 })
	_ = g.Stop(ended())
	expectCut(t, client)
}

// What is not read for a pause stays with the sender: the gate takes one buffer at a time.
func TestBackpressure(t *testing.T) {
	var total atomic.Int64
	m := &meter{throttle: newThrottle(nil)}
	m.flow = func(n int64, now time.Time) time.Time {
		total.Add(n)
		return now.Add(time.Second)
	}
	var arrived atomic.Int64
	upstream := serve(t, func(c *net.TCPConn) {
		for buf := make([]byte, 4096); ; {
			n, err := c.Read(buf)
			if arrived.Add(int64(n)); err != nil {
				return
			}
		}
	})
	g := start(t, Options{Upstream: upstream}, m)
	client := g.dial()
	go func() { _, _ = io.Copy(client, zeros{}) }()
	before := int64(0)
	for range 10 {
		needs.Wait(t, "a pause", func() bool { return g.clock.Pending() == 2 })
		needs.Wait(t, "arrived", func() bool { return arrived.Load() == total.Load() })
		if n := total.Load(); n <= before || n > before+chunkSize {
			t.Fatalf("%d bytes after %d", n, before)
		}
		before = total.Load()
		g.clock.Advance(time.Second)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Much more than any buffer holds, in both directions at once, arrives as it was sent.
func TestLargeTransfer(t *testing.T) {
	size := int64(16 << 20)
	if needs.Long() {
		size = 64 << 20
	}
	path := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	go func() {
		for {
			c, err := unix.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	tcp := echo(t)
	for _, test := range []struct {
		name, upstream string
		throttles      []weir.Throttle
	}{
		{"spliced", tcp, nil},
		{"metered", tcp, []weir.Throttle{first(counter())}},
		{"unix", "unix:" + path, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := start(t, Options{Upstream: test.upstream}, test.throttles...)
			c := g.dial()
			var sender sync.WaitGroup
			sent := sha256.New()
			sender.Go(func() {
				text := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{2}), size), sent)
				if n, err := io.Copy(c, text); n != size || err != nil {
					t.Errorf("sent %d, %v", n, err)
				}
				_ = c.CloseWrite()
			})
			got := sha256.New()
			if n, err := io.Copy(got, c); n != size || err != nil {
				t.Errorf("got %d, %v", n, err)
			}
			sender.Wait()
			if a, b := hex.EncodeToString(sent.Sum(nil)), hex.EncodeToString(got.Sum(nil)); a != b {
				t.Errorf("sent %s, got %s", a, b)
			}
			needs.Wait(t, "counted", func() bool { return g.seen.in.Load() == size && g.seen.out.Load() == size })
		})
	}
}
