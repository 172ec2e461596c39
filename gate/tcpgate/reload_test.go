package tcpgate

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/quota"
)

// named is an upstream that greets with its name.
func named(t testing.TB, name string) string {
	return serve(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, name)
		_, _ = io.Copy(c, c)
	})
}

// A connection keeps the chain and the upstream that it began with, also while it waits.
func TestReloadKeepsConnections(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: named(t, "old")}, l)
	under := g.dial()
	receive(t, l.Turns).Grant()
	expect(t, under, "old")
	waiting := g.dial()
	turn := receive(t, l.Turns)
	g.reload(Options{Upstream: named(t, "new")})
	after := g.dial()
	expect(t, after, "new")
	turn.Grant()
	expect(t, waiting, "old")
	for _, c := range []net.Conn{under, waiting, after} {
		passes(t, c)
	}
}

func TestReloadFails(t *testing.T) {
	g := start(t, Options{Upstream: named(t, "old")})
	if _, _, err := g.Prepare(Options{Upstream: "nowhere"}, nil, nil); err == nil {
		t.Error("taken")
	}
	if _, _, err := g.Prepare(Options{Protocol: UDP, Upstream: "127.0.0.1:1"}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "protocol") {
		t.Errorf("%v", err)
	}
	_, abort, err := g.Prepare(Options{Upstream: named(t, "new")}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	abort()
	expect(t, g.dial(), "old")
}

// The door and the bounds change with a reload.
func TestReloadDoorAndBounds(t *testing.T) {
	upstream := echo(t)
	g := start(t, Options{Upstream: upstream})
	c := g.dial()
	passes(t, c)
	none := newQuota(t, quota.Policy{Name: "none", Limit: quota.Count(0), Period: weir.Period{Length: time.Second}})
	commit, _, err := g.Prepare(Options{Upstream: upstream}, chainOf(t, none), nil)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	g.turnsAway("")
	g.reload(Options{Upstream: upstream, Bounds: Bounds{Connections: 1}})
	g.turnsAway("")
	g.seen.await(t, BoundConnections)
	g.reload(Options{Upstream: upstream})
	passes(t, g.dial())
	passes(t, c)
}

// Reloads under traffic: no connection fails, old or new, and everything that was taken is given back.
func TestReloadUnderTraffic(t *testing.T) {
	upstream := echo(t)
	g := start(t, Options{Upstream: upstream})
	stop := make(chan struct{})
	var load sync.WaitGroup
	talk := func(c net.Conn, text string) error {
		if _, err := io.WriteString(c, text); err != nil {
			return err
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
			return fmt.Errorf("%q %w", got, err)
		}
		return nil
	}
	for i := range 4 {
		long := g.dial()
		load.Go(func() {
			defer long.Close()
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := talk(long, fmt.Sprintf("word %d of %d", k, i)); err != nil {
					t.Errorf("a long connection: %v", err)
					return
				}
				short, err := g.try("")
				if err != nil {
					t.Errorf("a new connection: %v", err)
					return
				}
				deadline(short)
				if err := talk(short, "hello"); err != nil {
					t.Errorf("a short connection: %v", err)
				}
				_ = short.Close()
			}
		})
	}
	var chains []*throttle
	for i := range 30 {
		m, _ := counter()
		chains = append(chains, m.throttle)
		g.reload(Options{Upstream: upstream, Timeouts: Timeouts{Idle: weir.Duration(time.Minute)}}, m)
		seen := g.seen.verdicts(weir.Admit)
		needs.Wait(t, "the chain is met", func() bool { return g.seen.verdicts(weir.Admit) > seen })
		if i%2 == 0 {
			g.reload(Options{Upstream: upstream})
		}
	}
	close(stop)
	load.Wait()
	for i, c := range chains {
		needs.Wait(t, fmt.Sprintf("chain %d is free", i), func() bool { return c.Held.Load() == 0 })
	}
}
