package tcpgate

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// serveUDP is an upstream that answers each packet as told; an empty answer is none.
func serveUDP(t testing.TB, answer func(packet string) (replies []string)) string {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { _ = c.Close(); running.Wait() })
	running.Go(func() {
		for buf := make([]byte, 1<<16); ; {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			for _, reply := range answer(string(buf[:n])) {
				_, _ = c.WriteToUDPAddrPort([]byte(reply), from)
			}
		}
	})
	return c.LocalAddr().String()
}

func echoUDP(t testing.TB) string {
	return serveUDP(t, func(packet string) []string { return []string{packet} })
}

// client is one with a socket, and thus an address, of its own.
func (r *rig) client() *net.UDPConn {
	r.t.Helper()
	c, err := net.DialUDP("udp", nil, r.Addr().(*net.UDPAddr))
	if err != nil {
		r.t.Fatal(err)
	}
	deadline(c)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// says sends a packet and checks the reply.
func says(t testing.TB, c net.Conn, packet string) {
	t.Helper()
	if err := ask(c, packet); err != nil {
		t.Fatal(err)
	}
}

func hears(t testing.TB, c net.Conn, want string) {
	t.Helper()
	if err := hear(c, want); err != nil {
		t.Fatal(err)
	}
}

// ask is says for other goroutines than the test's own.
func ask(c net.Conn, packet string) error {
	if _, err := c.Write([]byte(packet)); err != nil {
		return err
	}
	return hear(c, packet)
}

func hear(c net.Conn, want string) error {
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	if err == nil && string(buf[:n]) != want {
		err = fmt.Errorf("heard %.40q, want %.40q", buf[:n], want)
	}
	return err
}

func (r *rig) judged(v weir.Verdict, n int) {
	r.t.Helper()
	needs.Wait(r.t, fmt.Sprintf("%d times %s", n, v), func() bool { return r.seen.verdicts(v) == n })
}

func TestUDP(t *testing.T) {
	for _, listen := range hosts() {
		t.Run(listen, func(t *testing.T) {
			var events atomic.Int64
			admit := newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
				if ev.Kind != KindUDP || !ev.Source.IsLoopback() || ev.Bytes == 0 || !ev.Time.Equal(epoch) ||
					(events.Add(1) == 1) != (ev.ID == "") {
					t.Errorf("event %+v", ev)
				}
				return nil
			})
			g := start(t, Options{Listen: listen, Protocol: UDP, Upstream: echoUDP(t)}, admit)
			c := g.client()
			for i := range 10 {
				says(t, c, fmt.Sprint("packet ", i))
			}
			needs.Wait(t, "noted", func() bool { return g.seen.in.Load() == 80 && g.seen.out.Load() == 80 })
			if g.seen.verdicts(weir.Admit) != 10 || g.seen.connections.Load() != 1 {
				t.Errorf("%d packets, %d sessions", g.seen.verdicts(weir.Admit), g.seen.connections.Load())
			}
			if admit.Held.Load() != 1 || len(admit.Settled) != 9 {
				t.Errorf("%d held, %d settled", admit.Held.Load(), len(admit.Settled))
			}
			g.clock.Advance(time.Minute)
			for range 10 {
				if o := receive(t, admit.Settled); !o.Done {
					t.Error("given back")
				}
			}
		})
	}
}

// Each client gets its own replies, however many there are at once.
func TestUDPClients(t *testing.T) {
	g := start(t, Options{Protocol: UDP, Upstream: echoUDP(t)})
	var all sync.WaitGroup
	for i := range 50 {
		c := g.client()
		all.Go(func() {
			for k := range 20 {
				if err := ask(c, fmt.Sprintf("%d of client %d", k, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// What is over the limit is dropped, and the next packet after it goes on.
func TestUDPLimit(t *testing.T) {
	q := newQuota(t, quota.Policy{Name: "per-second", Limit: quota.Count(3), Period: weir.Period{Length: time.Second}})
	g := start(t, Options{Protocol: UDP, Upstream: echoUDP(t)}, q)
	c := g.client()
	for range 3 {
		says(t, c, "within")
	}
	send(t, c, "over")
	g.judged(weir.Refuse, 1)
	send(t, g.client(), "over") // the source is the same
	g.judged(weir.Refuse, 2)
	if n := g.seen.connections.Load(); n != 1 {
		t.Errorf("%d sessions", n)
	}
	g.clock.Advance(time.Second)
	says(t, c, "after")
}

// A packet that would have to wait is dropped, and leaves the line.
func TestUDPWait(t *testing.T) {
	q := newQuota(t, quota.Policy{Name: "per-second", Limit: quota.Count(1), Period: weir.Period{Length: time.Second},
		Over: quota.OverDelay, Delay: quota.Delay{Max: 1}})
	g := start(t, Options{Protocol: UDP, Upstream: echoUDP(t)}, q)
	c := g.client()
	says(t, c, "first")
	for i := range 3 {
		send(t, c, "second")
		g.judged(weir.Wait, i+1)
	}
	send(t, g.client(), "another's") // there is room in the line
	g.judged(weir.Wait, 4)
	g.clock.Advance(time.Second)
	says(t, c, "third")
}

// Replies are charged like packets: what they cost is missing for the next packet, and one that finds nothing left is
// dropped.
func TestUDPRepliesAreCharged(t *testing.T) {
	q := newQuota(t, quota.Policy{Name: "traffic", Kind: quota.Volume, Limit: quota.Bytes(1000),
		Period: weir.Period{Length: time.Second}, Over: quota.OverDelay})
	long := strings.Repeat("x", 600)
	g := start(t, Options{Protocol: UDP,
		Upstream: serveUDP(t, func(string) []string { return []string{long, long, long} })}, q)
	c := g.client()
	send(t, c, "short")
	hears(t, c, long)
	hears(t, c, long)
	g.judged(weir.Refuse, 1)
	send(t, c, "short")
	g.judged(weir.Wait, 1)
	g.clock.Advance(time.Second)
	send(t, c, "short")
	hears(t, c, long)
}

// A limit on what is under way at once counts sessions.
func TestUDPConcurrent(t *testing.T) {
	q := newQuota(t, quota.Policy{Name: "at-once", Kind: quota.Concurrent, Limit: quota.Count(1)})
	g := start(t, Options{Protocol: UDP, Upstream: echoUDP(t)}, q)
	one, two := g.client(), g.client()
	says(t, one, "a")
	says(t, one, "b")
	send(t, two, "c")
	g.judged(weir.Refuse, 1)
	g.clock.Advance(time.Minute)
	needs.Wait(t, "expired", func() bool { return g.Open.Load() == 0 })
	says(t, two, "d")
}

// At the bound a newcomer's packets are dropped; nobody who is there has to go for it.
func TestUDPClientsBound(t *testing.T) {
	g := start(t, Options{Protocol: UDP, Upstream: echoUDP(t), Bounds: Bounds{Clients: 2}})
	one, two, three := g.client(), g.client(), g.client()
	says(t, one, "1")
	says(t, two, "2")
	send(t, three, "3")
	g.seen.await(t, BoundClients)
	g.clock.Advance(40 * time.Second)
	says(t, one, "1")
	send(t, three, "3")
	awaitBound(t, g.seen, BoundClients, 2)
	g.clock.Advance(40 * time.Second) // the second one has been idle for more than a minute, the first one has not
	needs.Wait(t, "one expired", func() bool { return g.Open.Load() == 1 })
	says(t, three, "3")
	says(t, one, "1")
	send(t, two, "2")
	awaitBound(t, g.seen, BoundClients, 3)
}

// One address with as many sessions as there may be does not keep others out.
func TestUDPNoSourceKeepsOthersOut(t *testing.T) {
	g := start(t, Options{Protocol: UDP, Upstream: echoUDP(t), Bounds: Bounds{Clients: 3}})
	var greedy []*net.UDPConn
	for range 3 {
		c := g.client()
		says(t, c, "greedy")
		greedy = append(greedy, c)
	}
	other, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 9)}, g.Addr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	deadline(other)
	says(t, other, "other")
	awaitBound(t, g.seen, BoundClients, 1)
	needs.Wait(t, "three", func() bool { return g.Open.Load() == 3 })
	send(t, greedy[2], "one too many")
	awaitBound(t, g.seen, BoundClients, 2)
	says(t, greedy[0], "older")
	says(t, other, "other")
}

func TestUDPPacketBound(t *testing.T) {
	g := start(t, Options{Protocol: UDP, Bounds: Bounds{Packet: 100},
		Upstream: serveUDP(t, func(packet string) []string {
			if packet == "more" {
				return []string{strings.Repeat("x", 101), strings.Repeat("y", 100)}
			}
			return []string{packet}
		})})
	c := g.client()
	says(t, c, strings.Repeat("x", 100))
	send(t, c, strings.Repeat("x", 101))
	g.seen.await(t, BoundPacket)
	send(t, c, "more")
	hears(t, c, strings.Repeat("y", 100))
	awaitBound(t, g.seen, BoundPacket, 2)
	says(t, c, "") // an empty packet is a packet
}

func TestUDPLargestPacket(t *testing.T) {
	g := start(t, Options{Protocol: UDP, Upstream: echoUDP(t)})
	says(t, g.client(), strings.Repeat("x", 65507))
}

// An upstream that is away costs packets, and neither the session nor the log.
func TestUDPUnreachable(t *testing.T) {
	admit := newThrottle(nil)
	upstream := echoUDP(t)
	taken, err := net.Dial("udp", upstream) // nobody else's packets are received there
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := taken.LocalAddr().(*net.UDPAddr)
	g := start(t, Options{Protocol: UDP, Upstream: at.String()}, admit)
	c := g.client()
	for i := range 5 {
		send(t, c, "hello")
		needs.Wait(t, "noticed", func() bool { return g.seen.unreached.Load() == int64(i+1) })
	}
	if n := strings.Count(g.log.String(), "cannot be reached"); n != 1 || g.Open.Load() != 1 {
		t.Errorf("%d lines, %d sessions", n, g.Open.Load())
	}
	_ = taken.Close()
	back, err := net.ListenUDP("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	deadline(back)
	send(t, c, "again")
	hears(t, back, "again")
	g.reload(Options{Protocol: UDP, Upstream: upstream}, admit)
	says(t, g.client(), "new")
	send(t, c, "a session keeps its upstream")
	hears(t, back, "a session keeps its upstream")
}

// The system tells of a packet that was refused with the next one, which goes on all the same.
func TestUDPRefusedBefore(t *testing.T) {
	g := start(t, Options{Protocol: UDP, Upstream: "127.0.0.1:1"})
	up, err := net.Dial("udp", nowhere(t, "udp"))
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	ss := &session{upstream: up.(*net.UDPConn)}
	ss.idle.gate = g.Gate
	ss.judge(t.Context(), chainOf(t), &weir.Event{})
	for range 10 {
		if err := ss.send([]byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
}

// A packet that cannot be sent is given back at once. One from IPv6 may be too large for IPv4.
func TestUDPUnsendable(t *testing.T) {
	admit, listen := newThrottle(nil), hosts()
	if len(listen) < 2 {
		needs.Skip(t, "no IPv6 here")
	}
	g := start(t, Options{Listen: listen[1], Protocol: UDP, Upstream: echoUDP(t), Bounds: Bounds{Packet: maxPacket}},
		admit)
	c := g.client()
	send(t, c, strings.Repeat("x", 65_520))
	if o := receive(t, admit.Settled); o.Done {
		t.Error("charged")
	}
	needs.Wait(t, "noted", func() bool { return g.seen.unreached.Load() == 1 })
	says(t, c, "hello")
}

// A session that ends late does not take its successor with it.
func TestUDPSuccessor(t *testing.T) {
	var replied atomic.Bool
	blocked, release := make(chan bool), make(chan bool)
	m, _ := counter()
	m.flow = func(n int64, _ time.Time) time.Time {
		if n == 7 && replied.CompareAndSwap(false, true) {
			close(blocked)
			<-release
		}
		return time.Time{}
	}
	answer := make(chan bool)
	g := start(t, Options{Protocol: UDP,
		Upstream: serveUDP(t, func(string) []string { <-answer; return []string{"7 bytes"} })}, m)
	c := g.client()
	send(t, c, "one")
	needs.Wait(t, "it went on", func() bool { return g.seen.in.Load() == 3 })
	close(answer)
	receive(t, blocked)
	g.clock.Advance(time.Minute)
	send(t, c, "two")
	hears(t, c, "7 bytes")
	if n := g.Open.Load(); n != 2 {
		t.Errorf("%d sessions, one of them about to end", n)
	}
	close(release)
	hears(t, c, "7 bytes")
	needs.Wait(t, "the old one has ended", func() bool { return g.Open.Load() == 1 })
	send(t, c, "three")
	hears(t, c, "7 bytes")
	if n := g.Open.Load(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// A throttle that panics costs a packet, or a session.
func TestUDPPanic(t *testing.T) {
	m, _ := counter()
	m.Answer = func(ev *weir.Event, _ *weir.Answer) error {
		if ev.Bytes == 3 {
			panic("three")
		}
		return nil
	}
	m.flow = func(n int64, _ time.Time) time.Time {
		if n == 5 {
			panic("five")
		}
		return time.Time{}
	}
	g := start(t, Options{Protocol: UDP, Upstream: serveUDP(t, func(packet string) []string {
		if packet == "more" {
			return []string{"five!"}
		}
		return []string{packet}
	})}, m)
	c := g.client()
	send(t, c, "333")
	says(t, c, "1")
	send(t, c, "333")
	says(t, c, "1")
	send(t, c, "more")
	needs.Wait(t, "the session is over", func() bool { return g.Open.Load() == 0 })
	says(t, c, "next")
	needs.Wait(t, "logged", func() bool { return strings.Count(g.log.String(), `"panic"`) == 3 })
}

// A reload under traffic loses no packet, and the new chain judges from the next one on.
func TestUDPReload(t *testing.T) {
	upstream := echoUDP(t)
	g := start(t, Options{Protocol: UDP, Upstream: upstream})
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		c := g.client()
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := ask(c, fmt.Sprint(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	m, _ := counter()
	for range 50 {
		g.reload(Options{Protocol: UDP, Upstream: upstream}, m)
		g.reload(Options{Protocol: UDP, Upstream: upstream})
	}
	close(stop)
	load.Wait()
	last, total := counter()
	g.reload(Options{Protocol: UDP, Upstream: upstream}, last)
	says(t, g.client(), "x")
	needs.Wait(t, "two bytes are charged", func() bool { return total.Load() == 2 })
}

// A stop waits for the reply that is due, not for sessions to expire.
func TestUDPStop(t *testing.T) {
	answer, asked := make(chan bool), make(chan bool, 1)
	g := start(t, Options{Protocol: UDP, Upstream: serveUDP(t, func(packet string) []string {
		if packet == "slow" {
			asked <- true
			<-answer
		}
		return []string{packet}
	})})
	says(t, g.client(), "quick")
	c := g.client()
	send(t, c, "slow")
	receive(t, asked)
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(context.Background()) }()
	needs.Wait(t, "the other is gone", func() bool { return g.Open.Load() == 1 })
	close(answer)
	hears(t, c, "slow")
	if err := receive(t, stopped); err != nil {
		t.Error(err)
	}
}

func TestUDPStopCuts(t *testing.T) {
	g := start(t, Options{Protocol: UDP, Upstream: serveUDP(t, func(string) []string { return nil })})
	send(t, g.client(), "no answer")
	needs.Wait(t, "a session", func() bool { return g.Open.Load() == 1 })
	if err := g.Stop(ended()); err == nil {
		t.Error("no error")
	}
}

// A name is looked up before packets come.
func TestUDPName(t *testing.T) {
	_, port, _ := net.SplitHostPort(echoUDP(t))
	g := start(t, Options{Protocol: UDP, Upstream: "localhost:" + port})
	if !g.Setup.Load().remote.AddrPort().Addr().IsLoopback() {
		t.Error(g.Setup.Load().remote)
	}
	o := Options{Protocol: UDP, Upstream: "no.such.host.invalid:1",
		Timeouts: Timeouts{Connect: weir.Duration(time.Second)}}
	if _, _, err := g.Prepare(o, nil, nil); err == nil || !strings.Contains(err.Error(), "upstream") {
		t.Errorf("%v", err)
	}
}

// Once a client has a session its packets cost no memory; nor does a newcomer that is refused.
func TestUDPAllocations(t *testing.T) {
	none := newThrottle(func(_ *weir.Event, a *weir.Answer) error { a.Verdict = weir.Refuse; return nil })
	deaf, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}) // nobody else does anything meanwhile
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	g := start(t, Options{Protocol: UDP, Upstream: deaf.LocalAddr().String()}, newThrottle(nil))
	g.env.Observer = nobody{}
	from, packet := netip.MustParseAddrPort("127.0.0.1:9"), []byte("hello")
	g.udp.take(packet, from)
	if n := testing.AllocsPerRun(1000, func() { g.udp.take(packet, from) }); n != 0 {
		t.Errorf("%v allocations for a packet", n)
	}
	g.reload(Options{Protocol: UDP, Upstream: "127.0.0.1:1"}, none)
	from = netip.MustParseAddrPort("127.0.0.2:9")
	if n := testing.AllocsPerRun(1000, func() { g.udp.take(packet, from) }); n != 0 {
		t.Errorf("%v allocations for a refused packet", n)
	}
}

// Packets beyond a limit cost the replies to those within it nothing, whichever throttle turns them away, and in
// whatever order all of them come. What a reply costs is charged also after a packet was turned away.
func TestUDPTurnedAwayMutesNobody(t *testing.T) {
	const burst, crowd = 20, 40
	limit := func(o bloom.Options) weir.Throttle {
		o.Rate = weir.Rate{Count: int64(o.Burst), Per: time.Hour}
		l, err := bloom.New(o, epoch)
		if err != nil {
			t.Fatal(err)
		}
		return l.Throttle()
	}
	packets := func() weir.Throttle { return limit(bloom.Options{Burst: burst}) }
	bytes := func(n weir.Number) weir.Throttle { return limit(bloom.Options{Burst: n, Count: bloom.Bytes}) }
	hour := weir.Period{Length: time.Hour}
	count := quota.Policy{Name: "packets", Limit: quota.Count(burst), Period: hour}
	volume := quota.Policy{Name: "traffic", Kind: quota.Volume, Limit: quota.Bytes(1 << 20), Period: hour,
		Over: quota.OverDelay}
	place := quota.Policy{Name: "at-once", Kind: quota.Concurrent, Limit: quota.Count(1)}
	long := strings.Repeat("x", 600)
	for name, c := range map[string]struct {
		reply     string
		want      int // replies
		throttles []weir.Throttle
	}{
		"packets, then bytes": {"short", burst, []weir.Throttle{packets(), bytes(1 << 20)}},
		"bytes, then packets": {"short", burst, []weir.Throttle{bytes(1 << 20), packets()}},
		"one quota":           {"short", burst, []weir.Throttle{newQuota(t, count, volume)}},
		"places": {"short", burst,
			[]weir.Throttle{newQuota(t, count), newQuota(t, volume), newQuota(t, place)}},
		"few bytes": {long, 1, []weir.Throttle{packets(), bytes(1000)}},
	} {
		t.Run(name, func(t *testing.T) {
			judged := make(chan struct{})
			g := start(t, Options{Protocol: UDP, Upstream: serveUDP(t, func(string) []string {
				<-judged
				return []string{c.reply}
			})}, c.throttles...)
			client := g.client()
			for range crowd {
				send(t, client, "x")
			}
			g.judged(weir.Refuse, crowd-burst)
			close(judged)
			for range c.want {
				hears(t, client, c.reply)
			}
			g.judged(weir.Refuse, crowd-c.want) // the other replies
		})
	}
}
