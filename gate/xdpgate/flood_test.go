//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/netlab"
)

// The flood: so many networks send so many SYNs in turn.
const (
	floodNetworks = 2_500
	floodSYNs     = 100_000
	burst         = 20 // of each network, half of what it sends
)

// flooder is an address of network i. Half of them are IPv4; of IPv6, every network is in a /48 of its own.
func flooder(i int) netip.Addr {
	if i%2 == 0 {
		return netip.AddrFrom4([4]byte{198, 18, byte(16 + i>>9), byte(i >> 1)})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 4: byte(i >> 8), 5: byte(i), 15: 1})
}

// flood sends SYNs from networks of the flood, bounded in number, through the far end of the cable.
func flood(far netlab.Namespace, port uint16, networks, syns int) error {
	var frames [][]byte
	for i := range networks {
		frames = append(frames, netlab.SYN(flooder(i), port))
	}
	return netlab.Flood(far, frames, syns)
}

// polite are the addresses of clients, each in a network of its own.
func polite() (all []netip.Addr) {
	for i := range 6 {
		all = append(all, netip.AddrFrom4([4]byte{198, 19, byte(i), 10}),
			netip.AddrFrom16([16]byte{0: 0xfd, 1: 0xaa, 5: byte(i), 15: 10}))
	}
	return all
}

// visit connects from every polite client, as a program does.
func visit(far netlab.Namespace, port uint16) error {
	return far.Do(func() error {
		for _, from := range polite() {
			to := netip.MustParseAddr(netlab.HostV4)
			if from.Is6() {
				to = netip.MustParseAddr(netlab.HostV6)
			}
			d := net.Dialer{Timeout: time.Minute, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
			c, err := d.Dial("tcp", netip.AddrPortFrom(to, port).String())
			if err != nil {
				return fmt.Errorf("from %s: %w", from, err)
			}
			c.Close()
		}
		return nil
	})
}

// TestFlood: while thousands of networks flood the host with SYNs, each is held to its limit and polite clients connect
// every time; also when weir is gone, until the limiter is removed.
func TestFlood(t *testing.T) {
	needsKernel(t)
	far := newCable(t)
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	if err := far.Do(func() error {
		var all []error
		for _, a := range polite() {
			args := []string{"addr", "add", netip.PrefixFrom(a, a.BitLen()).String(), "dev", netlab.Wire}
			if a.Is6() {
				args = append(args, "nodad")
			}
			all = append(all, netlab.Command("ip", args...))
		}
		return errors.Join(all...)
	}); err != nil {
		t.Fatal(err)
	}
	for _, a := range polite() { // the flood fills the table of neighbours
		if err := netlab.Command("ip", "neigh", "add", a.String(), "lladdr", netlab.WireMAC.String(), "dev", netlab.Host,
			"nud", "permanent"); err != nil {
			t.Fatal(err)
		}
	}

	o := onHost(t)
	o.Ports = []int{int(port)}
	o.Attach = Native
	o.Bloom.V4 = 32
	o.Bloom.Rate, o.Bloom.Burst = weir.Rate{Count: burst, Per: time.Hour}, burst
	o.Bloom.Attackers = 200_000 // plenty, so that no client of the test is ever short of limiters
	g := attached(t, o, Env{})

	// Every network has used up its burst before the first client comes, and goes on while they do.
	if err := flood(far, port, floodNetworks, floodSYNs/2); err != nil {
		t.Fatal(err)
	}
	rest := make(chan error)
	go func() { rest <- flood(far, port, floodNetworks, floodSYNs/2) }()
	const visits = 4
	for i := range visits {
		if err := visit(far, port); err != nil {
			t.Errorf("visit %d during the flood: %v", i, err)
		}
	}
	if err := <-rest; err != nil {
		t.Fatal(err)
	}
	c, err := g.Counters()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d networks, %d SYNs: %+v", floodNetworks, floodSYNs, c)
	clients := uint64(visits * len(polite()))
	if most := uint64(floodNetworks*burst) + clients; c.Passed > most {
		t.Errorf("%d SYNs passed, want at most %d", c.Passed, most)
	}
	if c.Passed < floodNetworks*burst/2 || c.Limited < floodSYNs/3 {
		t.Errorf("%d SYNs passed and %d were dropped: no flood", c.Passed, c.Limited)
	}

	// Nobody cares for it any more; the limits stay.
	g.Close()
	before := pinnedCounters(t, o.Pin)
	if err := flood(far, port, floodNetworks, floodNetworks); err != nil {
		t.Fatal(err)
	}
	if err := visit(far, port); err != nil {
		t.Errorf("a polite client after Close: %v", err)
	}
	after := pinnedCounters(t, o.Pin)
	if passed, limited := after.Passed-before.Passed,
		after.Limited-before.Limited; passed > floodNetworks/100+uint64(len(polite())) || limited < floodNetworks/2 {
		t.Errorf("after Close %d passed and %d were dropped", passed, limited)
	}
	if err := Detach(o.Pin, netlab.Host); err != nil {
		t.Fatal(err)
	}
	if err := visit(far, port); err != nil {
		t.Errorf("a polite client after Detach: %v", err)
	}
}

func pinnedCounters(t *testing.T, pin string) Counters {
	t.Helper()
	list, err := List(pin)
	if err != nil || len(list) != 1 || !list[0].Attached {
		t.Fatalf("pinned: %+v, %v", list, err)
	}
	return list[0].Counters
}
