package tcpgate

import (
	"context"
	"net"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/quota"
)

// A connection that waits is held unread; what the client says meanwhile is delivered when its turn has come.
func TestWait(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: echo(t)}, l)
	c := g.dial()
	turn := receive(t, l.Turns)
	send(t, c, "early")
	needs.Wait(t, "waiting", func() bool { return g.seen.waiting.Load() == 1 })
	if l.GoneOn.Load() != 0 || g.seen.verdicts(weir.Wait) != 0 {
		t.Error("went on")
	}
	turn.Grant()
	expect(t, c, "early")
	passes(t, c)
	if l.GoneOn.Load() != 1 || g.seen.waiting.Load() != 0 || g.seen.verdicts(weir.Wait) != 1 {
		t.Errorf("%d away, %d waiting", l.GoneOn.Load(), g.seen.waiting.Load())
	}
}

func TestWaitCalledOff(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: echo(t)}, l)
	c := g.dial()
	receive(t, l.Turns).Refuse(weir.WaitTooLong)
	expectCut(t, c)
	if o := receive(t, l.Settled); o.Done {
		t.Error("charged")
	}
	needs.Wait(t, "judged", func() bool { return g.seen.verdicts(weir.Refuse) == 1 })
}

// A client that leaves gives its place back, whether or not it had said something that nobody has read.
func TestLeavingWhileWaiting(t *testing.T) {
	for name, said := range map[string]string{"silent": "", "after a word": "hello"} {
		t.Run(name, func(t *testing.T) {
			l := newLine()
			g := start(t, Options{Upstream: echo(t)}, l)
			c := g.dial()
			receive(t, l.Turns)
			send(t, c, said)
			_ = c.Close()
			if o := receive(t, l.Settled); o.Done || l.GoneOn.Load() != 0 {
				t.Errorf("settled %+v, %d away", o, l.GoneOn.Load())
			}
			needs.Wait(t, "gone", func() bool { return g.Open.Load() == 0 && g.waiting.Len() == 0 })
		})
	}
}

// The place of a connection goes to the next in line, past those who have left.
func TestConcurrent(t *testing.T) {
	q := newQuota(t, quota.Policy{Name: "at-once", Kind: quota.Concurrent, Limit: quota.Count(1),
		Over: quota.OverDelay})
	g := start(t, Options{Upstream: echo(t)}, q)
	first := g.dial()
	passes(t, first)
	waits := func(n int64) {
		t.Helper()
		needs.Wait(t, "waiting", func() bool { return g.seen.waiting.Load() == n })
	}
	second := g.dial()
	waits(1)
	third := g.dial()
	waits(2)
	_ = second.Close()
	waits(1)
	_ = first.Close()
	passes(t, third)
}

func TestWaitingBound(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: echo(t), Bounds: Bounds{Waiting: 1}}, l)
	c := g.dial()
	turn := receive(t, l.Turns)
	needs.Wait(t, "waiting", func() bool { return g.seen.waiting.Load() == 1 })
	g.turnsAway("")
	g.seen.await(t, BoundWaiting)
	if o := receive(t, l.Settled); o.Done {
		t.Error("charged")
	}
	turn.Grant()
	passes(t, c)
}

// TestNoSourceTakesAllWaits: one address leaves a tenth of the waits to others.
func TestNoSourceTakesAllWaits(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: echo(t), Bounds: Bounds{Waiting: 20}}, l)
	waits := func(ip string, n int64) *net.TCPConn {
		t.Helper()
		c := g.dialFrom(ip)
		needs.Wait(t, "waiting", func() bool { return g.seen.waiting.Load() == n })
		return c
	}
	var conns []*net.TCPConn
	for i := range int64(18) {
		conns = append(conns, waits("127.0.0.2", i+1))
	}
	g.turnsAway("127.0.0.2")
	conns = append(conns, waits("127.0.0.3", 19), waits("127.0.0.4", 20))
	g.turnsAway("127.0.0.5")
	for len(l.Turns) > 0 {
		receive(t, l.Turns).Grant()
	}
	for _, c := range conns {
		passes(t, c)
	}
}

func TestConnectionsBound(t *testing.T) {
	g := start(t, Options{Upstream: echo(t), Bounds: Bounds{Connections: 2}})
	one, two := g.dial(), g.dial()
	passes(t, one)
	passes(t, two)
	g.turnsAway("")
	g.seen.await(t, BoundConnections)
	_ = one.Close()
	needs.Wait(t, "a place is free", func() bool { return g.Open.Load() == 1 })
	passes(t, g.dial())
	passes(t, two)
}

// Stop waits for those under way and for those in line.
func TestStop(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: echo(t)}, l)
	under := g.dial()
	receive(t, l.Turns).Grant()
	passes(t, under)
	waiting := g.dial()
	turn := receive(t, l.Turns)
	stopped := make(chan error, 2)
	go func() { stopped <- g.Stop(context.Background()) }()
	<-g.Serving.Done()
	go func() { stopped <- g.Stop(context.Background()) }()
	needs.Wait(t, "nobody is let in", func() bool {
		c, err := g.try("")
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	select {
	case err := <-stopped:
		t.Errorf("stopped at once: %v", err)
	default:
	}
	turn.Grant()
	passes(t, under)
	passes(t, waiting)
	_ = under.Close()
	_ = waiting.CloseWrite()
	expectEnd(t, waiting)
	for range 2 {
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
	}
	if l.Held.Load() != 0 {
		t.Errorf("%d held", l.Held.Load())
	}
}

// When patience ends, everybody is cut, under way or in line.
func TestStopCuts(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: echo(t)}, l)
	under := g.dial()
	receive(t, l.Turns).Grant()
	passes(t, under)
	waiting := g.dial()
	receive(t, l.Turns)
	if err := g.Stop(ended()); err == nil {
		t.Error("no error")
	}
	expectCut(t, under)
	expectCut(t, waiting)
	if l.Held.Load() != 0 {
		t.Errorf("%d held", l.Held.Load())
	}
	if err := g.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// Where nothing is under way, nothing is cut, however short the patience.
func TestStopIdleGate(t *testing.T) {
	for range 20 {
		if err := start(t, Options{Upstream: "127.0.0.1:1"}).Stop(ended()); err != nil {
			t.Fatal(err)
		}
	}
}

// Nothing in either direction for long enough, and the connection is cut.
func TestIdle(t *testing.T) {
	const idle = 200 * time.Millisecond // of the clock in hand; the system is asked four times as often, in real time
	for name, throttles := range map[string][]weir.Throttle{"spliced": nil, "metered": {first(counter())}} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Options{Upstream: echo(t), Timeouts: Timeouts{Idle: weir.Duration(idle)}}, throttles...)
			c := g.dial()
			for range 5 {
				before := g.seen.out.Load()
				passes(t, c)
				needs.Wait(t, "noted", func() bool {
					return g.seen.out.Load() == before+4 &&
						g.seen.in.Load() == before+4
				})
				g.clock.Advance(idle - time.Millisecond)
			}
			g.clock.Advance(2 * idle)
			expectCut(t, c)
		})
	}
}

// Also when both sides talk and neither listens.
func TestIdleWhileStuck(t *testing.T) {
	for name, throttles := range map[string][]weir.Throttle{"spliced": nil, "metered": {first(counter())}} {
		t.Run(name, func(t *testing.T) {
			upstream, conns := caught(t)
			g := start(t, Options{Upstream: upstream, Timeouts: Timeouts{Idle: weir.Duration(time.Minute)}},
				throttles...)
			client := g.dial()
			up := receive(t, conns)
			ended := make(chan error, 2)
			for _, c := range []interface{ Write([]byte) (int, error) }{client, up} {
				go func() {
					for piece := make([]byte, 1<<20); ; {
						if _, err := c.Write(piece); err != nil {
							ended <- err
							return
						}
					}
				}()
			}
			// Nobody can tell when the buffers of the system are full; until they are, each look finds that something
			// has moved.
			needs.Wait(t, "cut", func() bool { g.clock.Advance(2 * time.Minute); return g.Open.Load() == 0 })
			receive(t, ended)
			receive(t, ended)
		})
	}
}
