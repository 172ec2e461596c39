package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

const (
	patience = time.Minute
	secretA  = "a secret of the farm, for tests"
	secretB  = "another secret of it, for tests"
)

// A logbook keeps lines of the log.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// count is how many lines have a text.
func (l *logbook) count(text string) int { return strings.Count(l.String(), text) }

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// optionsOf are those of a node on this machine that meets nobody yet.
func optionsOf(name string) Options {
	return Options{
		Node: farm.Node{Name: name, Boot: 1},
		Options: farm.Options{
			Node: name, Listen: "127.0.0.1:0", Secret: []string{secretA}},
		Every: 20 * time.Millisecond,
	}
}

func open(t testing.TB, o Options) *Bus {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBus(t, b) })
	return b
}

func closeBus(t testing.TB, b *Bus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

// meet tells nodes where the others are.
func meet(t testing.TB, all ...*Bus) {
	t.Helper()
	for _, b := range all {
		o := b.options
		o.Peers = nil
		for _, other := range all {
			o.Peers = append(o.Peers, other.Addr().String())
		}
		if err := b.Reconfigure(o); err != nil {
			t.Fatal(err)
		}
	}
}

// three are nodes that know each other, and may not have met yet.
func three(t testing.TB) (a, b, c *Bus) {
	t.Helper()
	a, b, c = open(t, optionsOf("a")), open(t, optionsOf("b")), open(t, optionsOf("c"))
	meet(t, a, b, c)
	return a, b, c
}

// hears reports whether one bus hears another one, once.
func hears(t testing.TB, to, from *Bus) (once func() bool, stop func()) {
	t.Helper()
	topic := "hears-" + from.node.Name
	heard := make(chan struct{}, 1)
	stop, err := to.Hear(topic, func([]byte) {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() bool {
		if err := from.Send(topic, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-heard:
			return true
		default:
			return false
		}
	}, stop
}

// met waits until all nodes hear each other.
func met(t testing.TB, all ...*Bus) {
	t.Helper()
	for _, to := range all {
		for _, from := range all {
			if to != from {
				once, stop := hears(t, to, from)
				needs.Wait(t, fmt.Sprintf("%s hears %s", to.node.Name, from.node.Name), once)
				stop()
			}
		}
	}
}

// settled waits until each two nodes agree on the connection between them. While both have called each other, each may
// keep its own call: then both are closed and made again, and what was sent through one of them is lost.
func settled(t testing.TB, all ...*Bus) {
	t.Helper()
	ports := map[int]bool{}
	for _, b := range all {
		ports[b.addr.Port] = true
	}
	needs.Wait(t, "all have one connection to each other", func() bool {
		called := map[[2]string]int{} // by the two nodes: how many of them use a call of their own
		for _, b := range all {
			routes, err := b.server.Routez(nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(routes.Routes) != len(all)-1 {
				return false
			}
			for _, r := range routes.Routes {
				own, other := b.node.Address(), r.RemoteName
				pair := [2]string{min(own, other), max(own, other)}
				if ports[r.Port] {
					called[pair]++
				}
			}
		}
		for _, times := range called {
			if times != 1 {
				return false
			}
		}
		return len(called) == len(all)*(len(all)-1)/2
	})
}

func TestEmbedded(t *testing.T) {
	farmtest.TestBus(t, func(t *testing.T) (farm.Bus, farm.Bus, farm.Bus) {
		a, b, c := three(t)
		settled(t, a, b, c)
		return a, b, c
	})
}

// natsServer is a server that an operator runs.
func natsServer(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoLog, o.NoSigs = "127.0.0.1", true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	t.Cleanup(s.Shutdown)
	return s
}

func external(name, url string) Options {
	return Options{Node: farm.Node{Name: name, Boot: 1},
		Options: farm.Options{Node: name, NATS: url, Secret: []string{secretA}}}
}

func TestExternal(t *testing.T) {
	farmtest.TestBus(t, func(t *testing.T) (a, b, c farm.Bus) {
		s := natsServer(t, &server.Options{Port: server.RANDOM_PORT})
		return open(t, external("a", s.ClientURL())), open(t, external("b", s.ClientURL())),
			open(t, external("c", s.ClientURL()))
	})
}

func TestPortInUse(t *testing.T) {
	a := open(t, optionsOf("a"))
	o := optionsOf("b")
	o.Listen = a.Addr().String()
	b, err := Open(o)
	if err == nil {
		closeBus(t, b)
		t.Fatal("two nodes listen at the same port")
	}
	if want := "farm: cannot listen at " + o.Listen + ": address already in use (farm.listen)"; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestReconfigureNeedsARestart(t *testing.T) {
	a := open(t, optionsOf("a"))
	for name, change := range map[string]func(*farm.Options){
		"farm.listen": func(o *farm.Options) { o.Listen = "127.0.0.2:0" },
		"farm.nats":   func(o *farm.Options) { o.NATS = "nats://127.0.0.1:1" },
		"farm.node":   func(o *farm.Options) { o.Node = "b" },
	} {
		o := a.options
		change(&o)
		if err := a.Reconfigure(o); err == nil || !strings.Contains(err.Error(), name+" has changed: restart") {
			t.Errorf("%s: %v", name, err)
		}
	}
	closeBus(t, a)
	if err := a.Reconfigure(a.options); !errors.Is(err, farm.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
