package tcpgate

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir"
	"weir/gate"
	"weir/gate/gatetest"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/policy"
	"weir/throttle/quota"
)

// What the tests of all gates share.
type throttle = gatetest.Throttle

var (
	newThrottle = gatetest.NewThrottle
	newLine     = gatetest.NewLine
	chainOf     = gatetest.Chain
	ended       = gatetest.Ended
)

func receive[T any](t testing.TB, from <-chan T) T { t.Helper(); return gatetest.Receive(t, from) }

var epoch = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// meter is a throttle that also counts bytes.
type meter struct {
	*throttle
	flow func(n int64, now time.Time) time.Time
}

func (m *meter) Flow(_ weir.Hold, n int64, now time.Time) time.Time { return m.flow(n, now) }

// counter is a meter that never pauses.
func counter() (*meter, *atomic.Int64) {
	total := new(atomic.Int64)
	return &meter{newThrottle(nil), func(n int64, _ time.Time) time.Time { total.Add(n); return time.Time{} }}, total
}

func newQuota(t testing.TB, policies ...quota.Policy) *quota.Quota {
	t.Helper()
	q, err := quota.New(quota.Options{Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// observer counts what it is told.
type observer struct {
	connections, waiting, in, out, unreached atomic.Int64

	mu      sync.Mutex
	judged  [len(weir.Verdicts)]int
	bounded map[string]int
}

func (o *observer) Connections(d int)    { o.connections.Add(int64(d)) }
func (o *observer) Waiting(d int)        { o.waiting.Add(int64(d)) }
func (o *observer) Passed(in, out int64) { o.in.Add(in); o.out.Add(out) }
func (o *observer) Unreached()           { o.unreached.Add(1) }
func (o *observer) Judged(v weir.Verdict) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.judged[v]++
}
func (o *observer) Bounded(b string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bounded == nil {
		o.bounded = map[string]int{}
	}
	o.bounded[b]++
}
func (o *observer) bounds(b string) int          { o.mu.Lock(); defer o.mu.Unlock(); return o.bounded[b] }
func (o *observer) verdicts(v weir.Verdict) int  { o.mu.Lock(); defer o.mu.Unlock(); return o.judged[v] }
func (o *observer) await(t testing.TB, b string) { t.Helper(); awaitBound(t, o, b, 1) }

func awaitBound(t testing.TB, o *observer, b string, n int) {
	t.Helper()
	needs.Wait(t, "turned away at "+b, func() bool { return o.bounds(b) == n })
}

// rig is a gate on a real socket, with everything around it in the test's hand.
type rig struct {
	*Gate
	t     testing.TB
	addr  string
	clock *clock.Fake
	log   *gatetest.Log
	seen  *observer
}

func start(t testing.TB, o Options, throttles ...weir.Throttle) *rig {
	t.Helper()
	return startWith(t, o, nil, chainOf(t, throttles...))
}

func startWith(t testing.TB, o Options, accept, chain *policy.Chain) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(epoch), log: new(gatetest.Log), seen: new(observer)}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	level := slog.LevelDebug
	if _, measured := t.(*testing.B); measured {
		level = slog.LevelWarn
	}
	before := runtime.NumGoroutine()
	g, err := New(o, accept, chain, Env{Env: gate.Env{Clock: r.clock, Log: r.log.JSON(level)}, Observer: r.seen})
	if err != nil {
		t.Fatal(err)
	}
	gatetest.Run(t, g)
	r.Gate, r.addr = g, g.Addr().String()
	t.Cleanup(func() {
		_ = g.Stop(ended())
		if n, w, o := g.Open.Load(), g.waiting.Len(), r.seen.connections.Load(); n != 0 || w != 0 || o != 0 {
			t.Errorf("%d open (%d observed), %d waiting after the stop", n, o, w)
		}
		needs.Wait(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
		if n := r.clock.Pending(); n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
	return r
}

func (r *rig) reload(o Options, throttles ...weir.Throttle) {
	r.t.Helper()
	commit, _, err := r.Prepare(o, nil, chainOf(r.t, throttles...))
	if err != nil {
		r.t.Fatal(err)
	}
	commit()
}

// serve is an upstream that deals with each connection as told, and closes it then.
func serve(t testing.TB, handle func(c *net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().String()
}

// echo is an upstream that says what it is told.
func echo(t testing.TB) string {
	return serve(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
}

// caught is an upstream whose connections the test deals with by itself.
func caught(t testing.TB) (address string, conns <-chan *net.TCPConn) {
	ch := make(chan *net.TCPConn, 100)
	return serve(t, func(c *net.TCPConn) {
		deadline(c)
		gone := make(chan struct{})
		t.Cleanup(func() { close(gone) })
		ch <- c
		<-gone
	}), ch
}

// hosts are the addresses of this machine for itself, IPv4 first; not every machine has IPv6.
func hosts() []string {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return []string{"127.0.0.1:0"}
	}
	_ = l.Close()
	return []string{"127.0.0.1:0", "[::1]:0"}
}

// nowhere is an address where nobody listens, nor anybody will: it is taken by the near end of a connection to
// somewhere else.
func nowhere(t testing.TB, network string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = l.Close() })
	return c.LocalAddr().String()
}

// deadline makes a failing test end.
func deadline(c net.Conn) { _ = c.SetDeadline(time.Now().Add(time.Minute)) }

// dial connects to the gate.
func (r *rig) dial() *net.TCPConn { r.t.Helper(); return r.dialFrom("") }

// dialFrom connects from another address of this machine.
func (r *rig) dialFrom(ip string) *net.TCPConn {
	r.t.Helper()
	c, err := r.try(ip)
	if err != nil {
		r.t.Fatal(err)
	}
	deadline(c)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) try(ip string) (*net.TCPConn, error) {
	return net.DialTCP("tcp", &net.TCPAddr{IP: net.ParseIP(ip)}, r.Addr().(*net.TCPAddr))
}

// turnsAway checks that a connection is reset. That may be so soon that it does not come about.
func (r *rig) turnsAway(ip string) {
	r.t.Helper()
	c, err := r.try(ip)
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	deadline(c)
	expectCut(r.t, c)
}

func send(t testing.TB, c io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// expect reads exactly what is wanted.
func expect(t testing.TB, c io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%q %v, want %q", got[:n], err, want)
	}
}

// expectEnd wants a proper end.
func expectEnd(t testing.TB, c io.Reader) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("%d bytes, %v, want an end", n, err)
	}
}

// expectCut wants an end that cannot be taken for a proper one.
func expectCut(t testing.TB, c io.Reader) {
	t.Helper()
	n, err := c.Read(make([]byte, 1))
	var late net.Error
	if n != 0 || err == nil || err == io.EOF || errors.As(err, &late) && late.Timeout() {
		t.Fatalf("%d bytes, %v, want a reset", n, err)
	}
}

// passes checks that a connection goes through to an echo.
func passes(t testing.TB, c net.Conn) {
	t.Helper()
	send(t, c, "ping")
	expect(t, c, "ping")
}
