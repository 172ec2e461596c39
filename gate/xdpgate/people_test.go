//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/netlab"
)

// What BenchmarkPeople plays. The flood is far more than a host without SYN cookies can remember. What the limit leaves
// of it fits for however long it goes on: Linux remembers a half-open connection for about a minute, and in that minute
// 40 networks get a burst of 5 and 10 more each. It keeps a quarter of the backlog for peers that it knows.
const (
	peopleFlooders = 40     // networks
	peopleRate     = 20_000 // SYNs a second of all of them
	peopleLimit    = 10     // SYNs a minute of each network
	peopleBurst    = 5
	peopleBacklog  = 1024 // connections that the host remembers half open
	people         = 60   // who connect, one after the other begins, each from a network of its own
	peopleEvery    = 50 * time.Millisecond
	peopleWarmUp   = time.Second // in which the flood has filled what it can fill
	peoplePatience = 5 * time.Second
	peopleCost     = 200_000 // SYNs in a row, to measure what one costs to send and to take
)

// BenchmarkPeople measures how people connect while a flood of SYNs comes at a fixed rate: with the limiter in
// shadow, where it judges and everything passes, and enforced; with SYN cookies and without. The flood is paced. One
// that sends as fast as it can would send more while SYNs are dropped, as both ends share the processors of one
// machine here.
func BenchmarkPeople(b *testing.B) {
	needsKernel(b)
	for _, cookies := range []string{"on", "off"} {
		for _, mode := range []string{"shadow", "enforce"} {
			b.Run(fmt.Sprintf("cookies=%s/%s", cookies, mode), func(b *testing.B) {
				for b.Loop() {
					playPeople(b, cookies == "on", mode == "shadow")
				}
			})
		}
	}
}

// setSysctl sets one of the network namespace that this thread is in.
func setSysctl(b *testing.B, name, value string) {
	b.Helper()
	if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
		b.Fatal(err)
	}
}

func playPeople(b *testing.B, cookies, shadow bool) {
	near, far := netlab.Cable(b)
	done := make(chan error)
	go func() { // a namespace for each round, so on a thread of its own
		done <- near.Do(func() error {
			listener, gate, err := openHost(b, cookies, shadow)
			if err != nil {
				return err
			}
			defer listener.Close()
			defer gate.Close()
			return measurePeople(b, far, gate, uint16(listener.Addr().(*net.TCPAddr).Port))
		})
	}()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// openHost prepares the near end: a service, and the limiter in front of it.
func openHost(b *testing.B, cookies, shadow bool) (net.Listener, *Gate, error) {
	on := "0"
	if cookies {
		on = "1"
	}
	setSysctl(b, "ipv4/tcp_syncookies", on)
	setSysctl(b, "ipv4/tcp_max_syn_backlog", fmt.Sprint(peopleBacklog))
	setSysctl(b, "core/somaxconn", fmt.Sprint(peopleBacklog))
	// Everybody is behind a router, as on the Internet. Otherwise the host looks for each flooder by ARP, which is
	// another bottleneck.
	for _, away := range []string{"198.18.16.0/20", "198.18.32.0/19", "198.19.0.0/16"} {
		if err := netlab.Command("ip", "route", "add", away, "via", netlab.WireV4); err != nil {
			return nil, nil, err
		}
	}
	listener, err := net.Listen("tcp4", netlab.HostV4+":0")
	if err != nil {
		return nil, nil, err
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	o := Options{Interface: netlab.Host, Pin: netlab.BPF(b) + "/weir", Shadow: shadow,
		Ports: []int{listener.Addr().(*net.TCPAddr).Port}}
	o.Bloom.Rate, o.Bloom.Burst, o.Bloom.Attackers = weir.Rate{Count: peopleLimit, Per: time.Minute}, peopleBurst,
		10_000
	g, err := New(o, Env{})
	if err == nil {
		err = g.Attach()
	}
	if err != nil {
		listener.Close()
		return nil, nil, err
	}
	return listener, g, nil
}

// measurePeople floods, and connects meanwhile.
func measurePeople(b *testing.B, far netlab.Namespace, g *Gate, port uint16) error {
	if err := far.Do(func() error {
		var all []error
		for i := range people {
			all = append(all, netlab.Command("ip", "addr", "add", fmt.Sprintf("198.19.%d.10/32", i), "dev",
				netlab.Wire))
		}
		return errors.Join(all...)
	}); err != nil {
		return err
	}
	var frames [][]byte
	for i := range peopleFlooders * 250 { // 250 addresses of each network
		frames = append(frames,
			netlab.SYN(netip.AddrFrom4([4]byte{198, 18, byte(16 + i%peopleFlooders), byte(1 + i/peopleFlooders)}),
				port))
	}
	stop, flooded := make(chan struct{}), make(chan error, 1)
	sent, began := 0, time.Now()
	go func() {
		var err error
		sent, err = netlab.FloodAt(far, frames, peopleRate, stop)
		flooded <- err
	}()
	<-time.After(peopleWarmUp)
	next := time.NewTicker(peopleEvery)
	defer next.Stop()
	crowd, burst := people, peopleCost
	if testing.Short() {
		crowd, burst = people/10, peopleCost/20
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var times []time.Duration // of those who connected
	for i := range crowd {
		all.Go(func() {
			from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 19, byte(i), 10}), 0)
			var took time.Duration
			err := far.Do(func() error {
				start := time.Now()
				d := net.Dialer{Timeout: peoplePatience, LocalAddr: net.TCPAddrFromAddrPort(from)}
				c, err := d.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(netlab.HostV4), port).String())
				if err == nil {
					took = time.Since(start)
					c.Close()
				}
				return err
			})
			if err == nil {
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
			}
		})
		<-next.C
	}
	all.Wait()
	close(stop)
	if err := <-flooded; err != nil {
		return err
	}
	rate := float64(sent) / time.Since(began).Seconds()
	start := time.Now()
	if err := netlab.Flood(far, frames, burst); err != nil {
		return err
	}
	cost := time.Since(start) / time.Duration(burst)
	c, err := g.Counters()
	if err != nil {
		return err
	}
	slices.Sort(times)
	b.ReportMetric(100*float64(len(times))/float64(crowd), "connected-%")
	if n := len(times); n > 0 {
		b.ReportMetric(float64(times[n/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(times[n*95/100].Microseconds())/1000, "p95-ms")
	}
	b.ReportMetric(rate, "SYNs/s")
	b.ReportMetric(float64(cost.Nanoseconds()), "ns/SYN")
	b.ReportMetric(float64(c.Dropped()), "dropped")
	b.ReportMetric(0, "ns/op")
	return nil
}
