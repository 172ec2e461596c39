package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// names is a name server.
type names struct {
	mu    sync.Mutex
	addrs map[string][]netip.Addr
}

func (n *names) set(host string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addrs == nil {
		n.addrs = map[string][]netip.Addr{}
	}
	delete(n.addrs, host)
	for _, a := range addrs {
		n.addrs[host] = append(n.addrs[host], netip.MustParseAddr(a))
	}
}

func (n *names) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, ok := n.addrs[host]; ok {
		return found, nil
	}
	return nil, errors.New("no such host")
}

// freePort is one where nobody listens, at any address of this machine.
func freePort() string {
	_, port, _ := net.SplitHostPort(needs.FreeAddress())
	return port
}

// TestNames: a node that appears under a name is found, and one that disappears is let go.
func TestNames(t *testing.T) {
	port := freePort()
	var dns names
	dns.set("weir.internal", "127.0.0.1")
	var book logbook
	at := func(name, host string) Options {
		o := optionsOf(name)
		o.Listen = net.JoinHostPort(host, port)
		o.Peers = []string{"weir.internal:" + port}
		o.Resolve = dns.resolve
		return o
	}
	first := at("a", "127.0.0.1")
	first.Log = book.logger()
	a := open(t, first)
	self := "peers: weir.internal:" + port + " is this node itself; nobody else was found there"
	needs.Wait(t, "the node notices that it is alone", func() bool { return book.count(self) == 1 })

	second := at("b", "127.0.0.2")
	second.Peers = nil // it is found, and does not look itself
	b := open(t, second)
	dns.set("weir.internal", "127.0.0.1", "127.0.0.2")
	met(t, a, b)

	dns.set("weir.internal") // the name server is gone: nothing changes
	needs.Wait(t, "the name is missed", func() bool {
		return book.count("does not resolve: no such host; weir goes on with what it knows") == 1
	})
	met(t, a, b)
	dns.set("weir.internal", "127.0.0.1")
	needs.Wait(t, "the name resolves again", func() bool { return book.count("resolves again") == 1 })
	needs.Wait(t, "the route to the node that disappeared is closed", func() bool { return a.server.NumRoutes() == 0 })
	if n := book.count(self); n != 2 {
		t.Errorf("that it is alone stands in the log %d times:\n%s", n, book.String())
	}
}

func TestOwnAddress(t *testing.T) {
	ap := netip.MustParseAddrPort
	for _, c := range []struct {
		listen, addr string
		own          bool
	}{
		{"127.0.0.1:7400", "127.0.0.1:7400", true},
		{"127.0.0.1:7400", "127.0.0.1:7401", false},
		{"127.0.0.1:7400", "127.0.0.2:7400", false},
		{"0.0.0.0:7400", "127.0.0.2:7400", true},
		{"[::]:7400", "127.0.0.1:7400", true},
		{"[::]:7400", "[::1]:7400", true},
		{"[::]:7400", "203.0.113.1:7400", false},
		{"[::ffff:10.0.0.1]:7400", "10.0.0.1:7400", true},
	} {
		if own := ownAddress(net.TCPAddrFromAddrPort(ap(c.listen)))(ap(c.addr)); own != c.own {
			t.Errorf("listening at %s, %s is its own: %v", c.listen, c.addr, own)
		}
	}
}

// TestPeersAreBounded: a name may stand for more addresses than there can be nodes.
func TestPeersAreBounded(t *testing.T) {
	var book logbook
	for _, c := range []struct{ addrs, want, warnings int }{
		{maxRoutes, maxRoutes, 0}, {maxRoutes + 1, maxRoutes, 1}, {maxRoutes + 1, maxRoutes, 1},
	} {
		found := make([]netip.Addr, c.addrs)
		for i := range found {
			found[i] = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		}
		p := &peers{log: book.logger(), silent: map[string]bool{}, tooMany: book.count("name fewer") > 0,
			self:    func(netip.AddrPort) bool { return false },
			resolve: func(context.Context, string) ([]netip.Addr, error) { return found, nil }}
		if got := p.addresses(t.Context(), []string{"all:7400", "bad"}); len(got) != c.want {
			t.Errorf("%d addresses of %d", len(got), c.addrs)
		}
		if n := book.count("name fewer"); n != c.warnings {
			t.Errorf("%d warnings, want %d", n, c.warnings)
		}
	}
}

// TestUnreachable: a peer that does not answer is logged once, and once more when it does.
func TestUnreachable(t *testing.T) {
	port := freePort()
	var book logbook
	o := optionsOf("a")
	o.Log = book.logger()
	o.Peers = []string{"127.0.0.1:" + port}
	a := open(t, o)
	line := "peers: 127.0.0.1:" + port + " does not answer: connection refused; weir goes on without it"
	needs.Wait(t, "the peer is missed", func() bool { return book.count(line) == 1 })
	second := optionsOf("b")
	second.Listen = "127.0.0.1:" + port
	b := open(t, second)
	met(t, a, b)
	needs.Wait(t, "the peer answers", func() bool { return book.count("peers: 127.0.0.1:"+port+" answers again") == 1 })
	closeBus(t, b)
	needs.Wait(t, "the peer is missed again", func() bool { return book.count(line) == 2 })
	b = open(t, second) // a restart
	met(t, a, b)
	if n := book.count(line); n != 2 {
		t.Errorf("%d lines:\n%s", n, book.String())
	}
}

// pair are two nodes of which only the first looks for the other.
func pair(t *testing.T, change func(b *Options)) (a, b *Bus, ofA, ofB *logbook) {
	t.Helper()
	ofA, ofB = &logbook{}, &logbook{}
	second := optionsOf("b")
	change(&second)
	second.Log = ofB.logger()
	b = open(t, second)
	first := optionsOf("a")
	first.Log = ofA.logger()
	first.Peers = []string{b.Addr().String()}
	return open(t, first), b, ofA, ofB
}

func print8(t *testing.T, secret string) string {
	t.Helper()
	print, err := fingerprint(secret)
	if err != nil {
		t.Fatal(err)
	}
	return print
}

// tries is how often somebody was refused at a bus.
func tries(b *Bus, addr string) int {
	b.troubles.mu.Lock()
	defer b.troubles.mu.Unlock()
	return b.troubles.refused[addr].times
}

func nowOf(at *time.Time) func() time.Time { return func() time.Time { return *at } }

// TestRefused: both ends say why.
func TestRefused(t *testing.T) {
	ours, theirs := print8(t, secretA), print8(t, secretB)
	for name, c := range map[string]struct {
		change   func(b *Options)
		atA, atB string
	}{
		"another secret": {func(b *Options) { b.Secret = []string{secretB} },
			fmt.Sprintf("it has another farm.secret (fingerprint %s, ours is %s)", theirs, ours),
			fmt.Sprintf("it has another farm.secret (fingerprint %s, ours is %s)", ours, theirs)},
		"a secret that only one knows signs": {func(b *Options) { b.Secret = []string{secretB, secretA} },
			fmt.Sprintf("it has another farm.secret (fingerprint %s and %s, ours is %s)", theirs, ours, ours),
			fmt.Sprintf("it has another farm.secret (fingerprint %s, ours is %s and %s)", ours, theirs, ours)},
		"another version": {func(b *Options) { b.major = farm.Major + 1 },
			"it speaks version 2 of the farm's language, this node 1", "it speaks version 1 of the farm's language, this node 2"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, ofA, ofB := pair(t, c.change)
			at := b.Addr().String()
			needs.Wait(t, "a says why", func() bool { return strings.Contains(a.Stats().Refused[at], c.atA) })
			needs.Wait(t, "b says why", func() bool { return strings.Contains(b.Stats().Refused["127.0.0.1"], c.atB) })
			needs.Wait(t, "a tries again", func() bool { return tries(b, "127.0.0.1") > 2 })
			if n := ofA.count(c.atA); n != 1 {
				t.Errorf("a: %d lines:\n%s", n, ofA.String())
			}
			if n := ofB.count(c.atB); n != 1 {
				t.Errorf("b: %d lines:\n%s", n, ofB.String())
			}
			if all := ofA.String() + ofB.String(); strings.Contains(all, secretA) || strings.Contains(all, secretB) {
				t.Error("a secret stands in the log")
			}
			if a.server.NumRoutes()+b.server.NumRoutes() != 0 {
				t.Error("there is a route")
			}
		})
	}
}

// TestRotation: three nodes change the secret, one after the other, and never lose each other.
func TestRotation(t *testing.T) {
	a, b, c := three(t)
	met(t, a, b, c)
	for _, step := range [][]string{{secretA, secretB}, {secretB, secretA}, {secretB}} {
		for i, bus := range []*Bus{a, b, c} {
			o := bus.options
			o.Secret = step
			if err := bus.Reconfigure(o); err != nil {
				t.Fatal(err)
			}
			// a node that starts now with what its neighbour has gets in
			fresh := optionsOf("d")
			fresh.Secret = []*Bus{a, b, c}[(i+1)%3].options.Secret
			d := open(t, fresh)
			for _, x := range []*Bus{a, b, c} {
				fresh.Peers = append(fresh.Peers, x.Addr().String())
			}
			if err := d.Reconfigure(fresh.Options); err != nil {
				t.Fatal(err)
			}
			met(t, a, b, c, d)
			for _, x := range []*Bus{a, b, c, d} {
				if r := x.Stats().Refused; len(r) != 0 {
					t.Errorf("%v, node %d: %s refuses %v", len(step), i, x.node.Name, r)
				}
			}
			closeBus(t, d)
		}
	}
	o := a.options
	o.Secret = nil
	if err := a.Reconfigure(o); err == nil {
		t.Error("a farm without a secret")
	}
	met(t, a, b, c)
}

func TestRefusedIsBounded(t *testing.T) {
	now := always
	var book logbook
	tr := newTroubles(book.logger(), nowOf(&now))
	addr := func(i int) string { return fmt.Sprintf("10.0.0.%d:1", i) }
	for i := range maxRefused {
		tr.refuse(addr(i), &refusal{"another secret"})
		now = now.Add(1)
	}
	tr.refuse("192.0.2.1:1", errNoNode)
	if got := tr.lately(); len(got) != maxRefused || got["192.0.2.1"] != "" {
		t.Errorf("a stranger pushes a node out: %v", got)
	}
	tr.refuse(addr(maxRefused), &refusal{"another secret"})
	if got := tr.lately(); len(got) != maxRefused || got["10.0.0.0"] != "" || got["10.0.0.16"] == "" {
		t.Errorf("the oldest did not go: %v", got)
	}
	now = now.Add(refusedFor - 1)
	if len(tr.lately()) == 0 {
		t.Error("all are gone too early")
	}
	now = now.Add(1)
	if got := tr.lately(); got != nil {
		t.Errorf("after a minute: %v", got)
	}
	for i := range maxRefused + 1 {
		tr.refuse(addr(i), errNoNode)
	}
	if got := tr.lately(); len(got) != maxRefused {
		t.Errorf("%d strangers are remembered", len(got))
	}
	if n := book.count("was turned away"); n != 1 {
		t.Errorf("strangers have %d lines in the log", n)
	}
	for i := range maxAway + 1 {
		tr.fails(addr(i), "connection refused")
	}
	if len(tr.away) != maxAway {
		t.Errorf("%d that do not answer are remembered", len(tr.away))
	}
	tr.list([]string{addr(1)})
	if len(tr.away) != 1 {
		t.Errorf("%d are remembered that are no longer listed", len(tr.away)-1)
	}
}
