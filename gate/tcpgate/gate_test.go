package tcpgate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/gate"
	"weir/internal/logs"
	"weir/internal/testkit/needs"
	"weir/throttle/quota"
)

func TestAdmit(t *testing.T) {
	for name, metered := range map[string]bool{"spliced": false, "metered": true} {
		t.Run(name, func(t *testing.T) {
			admit := newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
				if ev.Kind != KindTCP || ev.Source != netip.MustParseAddr("127.0.0.1") || !ev.Time.Equal(epoch) ||
					ev.ID == "" || ev.Charge() != 1 {
					t.Errorf("event %+v", ev)
				}
				return nil
			})
			throttles := []weir.Throttle{admit}
			if metered {
				m, total := counter()
				throttles = append(throttles, m)
				t.Cleanup(func() {
					if total.Load() != 8 {
						t.Errorf("%d bytes charged", total.Load())
					}
				})
			}
			g := start(t, Options{Upstream: echo(t)}, throttles...)
			c := g.dial()
			passes(t, c)
			if admit.Held.Load() != 1 || g.seen.connections.Load() != 1 {
				t.Errorf("%d held, %d connections", admit.Held.Load(), g.seen.connections.Load())
			}
			_ = c.CloseWrite()
			expectEnd(t, c)
			if o := receive(t, admit.Settled); !o.Done || !o.Time.Equal(epoch) {
				t.Errorf("settled %+v", o)
			}
			needs.Wait(t, "closed", func() bool { return g.Open.Load() == 0 })
			if in, out := g.seen.in.Load(), g.seen.out.Load(); in != 4 || out != 4 || g.seen.verdicts(weir.Admit) != 1 {
				t.Errorf("%d in, %d out, %d admitted", in, out, g.seen.verdicts(weir.Admit))
			}
			var line map[string]any
			needs.Wait(t, "a line", func() bool { return json.Unmarshal([]byte(g.log.String()), &line) == nil })
			if line["msg"] != "connection" || line["source"] != "127.0.0.1" || line["verdict"] != "admit" ||
				line["in"] != 4.0 || line["out"] != 4.0 || line["cut"] != nil {
				t.Errorf("%v", line)
			}
		})
	}
}

// A refused connection is closed, and the next one works when there is room again.
func TestRefuse(t *testing.T) {
	q := newQuota(t, quota.Policy{Name: "per-second", Limit: quota.Count(1), Period: weir.Period{Length: time.Second}})
	g := start(t, Options{Upstream: echo(t)}, q)
	passes(t, g.dial())
	g.turnsAway("")
	passes(t, g.dialFrom("127.0.0.2"))
	g.clock.Advance(time.Second)
	passes(t, g.dial())
	if g.seen.verdicts(weir.Refuse) != 1 || g.seen.verdicts(weir.Admit) != 3 {
		t.Errorf("judged %v", g.seen.judged)
	}
}

func TestTurnedAway(t *testing.T) {
	for name, judge := range map[string]func(*weir.Event, *weir.Answer) error{
		"challenge": func(_ *weir.Event, a *weir.Answer) error { a.Verdict = weir.Challenge; return nil },
		"failure":   func(*weir.Event, *weir.Answer) error { return errors.New("broken") },
		"panic":     func(*weir.Event, *weir.Answer) error { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			before := newThrottle(nil)
			g := start(t, Options{Upstream: echo(t)}, before, newThrottle(func(ev *weir.Event, a *weir.Answer) error {
				if ev.Source == netip.MustParseAddr("127.0.0.2") {
					return nil
				}
				return judge(ev, a)
			}))
			neighbour := g.dialFrom("127.0.0.2")
			passes(t, neighbour)
			g.turnsAway("")
			if o := receive(t, before.Settled); o.Done {
				t.Error("what was taken before is not given back")
			}
			passes(t, neighbour)
			passes(t, g.dialFrom("127.0.0.2"))
		})
	}
}

// A throttle that panics while bytes flow hurts only its own connection.
func TestPanicLater(t *testing.T) {
	m, _ := counter()
	m.flow = func(n int64, _ time.Time) time.Time {
		if n == 3 {
			panic("three")
		}
		return time.Time{}
	}
	g := start(t, Options{Upstream: echo(t)}, m)
	neighbour := g.dial()
	passes(t, neighbour)
	c := g.dial()
	send(t, c, "333")
	if _, err := io.ReadAll(c); err == nil {
		t.Error("a proper end")
	}
	if o := receive(t, m.Settled); !o.Done {
		t.Error("given back")
	}
	passes(t, neighbour)
	needs.Wait(t, "a line", func() bool { return strings.Contains(g.log.String(), `"panic":"three"`) })
}

func TestDoor(t *testing.T) {
	edge := newQuota(t, quota.Policy{Name: "edge", Limit: quota.Count(1), Period: weir.Period{Length: time.Second}})
	inner := newThrottle(nil)
	g := startWith(t, Options{Upstream: echo(t), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}},
		chainOf(t, edge), chainOf(t, inner))
	passes(t, g.dial())
	g.turnsAway("")
	passes(t, g.dialFrom("127.0.0.2"))
	for range 3 {
		passes(t, g.dialFrom("127.0.0.9"))
	}
	g.clock.Advance(time.Second)
	passes(t, g.dial())
	if n := inner.Held.Load(); n != 6 {
		t.Errorf("%d got past the door", n)
	}
}

// One address with all connections, which say nothing, does not keep others out.
func TestNoSourceKeepsOthersOut(t *testing.T) {
	g := start(t, Options{Upstream: echo(t), Bounds: Bounds{Connections: 4}})
	greedy := []*net.TCPConn{g.dial(), g.dial(), g.dial(), g.dial()}
	needs.Wait(t, "four", func() bool { return g.Open.Load() == 4 })
	for _, ip := range []string{"127.0.0.2", "127.0.0.3"} {
		passes(t, g.dialFrom(ip))
	}
	for i, c := range greedy {
		if i < 2 {
			passes(t, c)
		} else if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("connection %d: %d", i, n)
		}
	}
	if n := g.seen.bounds(BoundConnections); n != 2 {
		t.Errorf("%d counted", n)
	}
}

// A door whose throttle panics does not take the gate down.
func TestDoorPanics(t *testing.T) {
	edge := newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
		if ev.Source == netip.MustParseAddr("127.0.0.2") {
			panic("two")
		}
		return nil
	})
	g := startWith(t, Options{Upstream: echo(t)}, chainOf(t, edge), nil)
	g.turnsAway("127.0.0.2")
	passes(t, g.dial())
}

// Either side may end its half first, and the other goes on.
func TestHalfClose(t *testing.T) {
	for name, throttles := range map[string][]weir.Throttle{"spliced": nil,
		"metered": {newQuota(t, quota.Policy{Name: "q", Limit: quota.Count(9),
			Period: weir.Period{Length: time.Second}})}} {
		t.Run(name, func(t *testing.T) {
			upstream, conns := caught(t)
			g := start(t, Options{Upstream: upstream}, throttles...)
			t.Run("client first", func(t *testing.T) {
				client := g.dial()
				up := receive(t, conns)
				send(t, client, "question")
				_ = client.CloseWrite()
				expect(t, up, "question")
				expectEnd(t, up)
				send(t, up, "answer")
				expect(t, client, "answer")
				send(t, up, "more")
				_ = up.Close()
				expect(t, client, "more")
				expectEnd(t, client)
			})
			t.Run("upstream first", func(t *testing.T) {
				client := g.dial()
				up := receive(t, conns)
				send(t, up, "greeting")
				_ = up.CloseWrite()
				expect(t, client, "greeting")
				expectEnd(t, client)
				send(t, client, "goodbye")
				expect(t, up, "goodbye")
				send(t, client, "really")
				_ = client.Close()
				expect(t, up, "really")
				expectEnd(t, up)
			})
			needs.Wait(t, "closed", func() bool { return g.Open.Load() == 0 })
		})
	}
}

// A reset is passed on as one: half of an answer must not look like all of it.
func TestReset(t *testing.T) {
	for name, throttles := range map[string][]weir.Throttle{"spliced": nil, "metered": {first(counter())}} {
		t.Run(name, func(t *testing.T) {
			upstream, conns := caught(t)
			g := start(t, Options{Upstream: upstream}, throttles...)
			client := g.dial()
			up := receive(t, conns)
			send(t, up, "half")
			expect(t, client, "half")
			gate.Reset(up)
			expectCut(t, client)

			client = g.dial()
			up = receive(t, conns)
			send(t, client, "half")
			expect(t, up, "half")
			gate.Reset(client)
			expectCut(t, up)
			needs.Wait(t, "closed", func() bool { return g.Open.Load() == 0 })
		})
	}
}

func first[A, B any](a A, _ B) A { return a }

// What has been said arrives also when both sides have gone home before it did.
func TestSlowReader(t *testing.T) {
	const size = 1 << 20
	upstream := serve(t, func(c *net.TCPConn) { _, _ = io.Copy(c, io.LimitReader(zeros{}, size)) })
	for name, throttles := range map[string][]weir.Throttle{"spliced": nil, "metered": {first(counter())}} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Options{Upstream: upstream}, throttles...)
			client := g.dial()
			_ = client.CloseWrite()
			needs.Wait(t, "the gate is done",
				func() bool { return g.seen.verdicts(weir.Admit) == 1 && g.Open.Load() == 0 })
			if n, err := io.Copy(io.Discard, client); n != size || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
}

// An upstream that has answered and gone, while the client still talks, has its answer delivered.
func TestEarlyAnswer(t *testing.T) {
	answer := strings.Repeat("too much ", 3000)
	upstream := serve(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1000))
		_, _ = io.WriteString(c, answer)
	})
	for name, throttles := range map[string][]weir.Throttle{"spliced": nil, "metered": {first(counter())}} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Options{Upstream: upstream}, throttles...)
			for range 20 {
				client := g.dial()
				var talk sync.WaitGroup
				talk.Go(func() {
					for piece := make([]byte, 1000); ; {
						if _, err := client.Write(piece); err != nil {
							return
						}
					}
				})
				got := make([]byte, len(answer))
				if n, err := io.ReadFull(client, got); err != nil || string(got) != answer {
					t.Fatalf("%d bytes of %d, %v", n, len(answer), err)
				}
				_ = client.Close()
				talk.Wait()
			}
		})
	}
}

// Nobody there: the connection is closed, what was taken is given back, and the log is not filled.
func TestUnreachable(t *testing.T) {
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: nowhere(t, "tcp")}, admit)
	const many = 20
	for range many {
		g.turnsAway("")
		if o := receive(t, admit.Settled); o.Done {
			t.Error("charged")
		}
	}
	lines := func() int { return strings.Count(g.log.String(), "the upstream cannot be reached") }
	if n := lines(); n != 1 || g.seen.unreached.Load() != many {
		t.Errorf("%d lines, %d counted", n, g.seen.unreached.Load())
	}
	g.clock.Advance(logs.Every)
	g.turnsAway("")
	if n := lines(); n != 2 || !strings.Contains(g.log.String(), `"unlogged_before":19`) {
		t.Errorf("%d lines: %s", n, g.log)
	}
}

func TestUnixUpstream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			conns <- c
		}
	}()
	g := start(t, Options{Upstream: "unix:" + path})
	client := g.dial()
	up := receive(t, conns)
	defer up.Close()
	deadline(up)
	send(t, client, "over")
	_ = client.CloseWrite()
	expect(t, up, "over")
	expectEnd(t, up)
	send(t, up, "out")
	_ = up.Close()
	expect(t, client, "out")
	expectEnd(t, client)
}

func TestListenErrors(t *testing.T) {
	for _, protocol := range []Protocol{TCP, UDP} {
		g := start(t, Options{Protocol: protocol, Upstream: "127.0.0.1:1"})
		if err := g.Listen(); err == nil {
			t.Error("listens twice")
		}
		other, err := New(Options{Protocol: protocol, Listen: g.addr, Upstream: "127.0.0.1:1"}, nil, nil, Env{})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Listen(); err == nil {
			t.Error("listens on a taken address")
		}
		other.Start() // does nothing
		if other.Addr() != nil {
			t.Error("has an address")
		}
		if err := other.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := other.Listen(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("listens after the stop: %v", err)
		}
	}
}
