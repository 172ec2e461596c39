package httpgate

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// byteLimits are throttles with a limit of so many bytes a second for each source.
func byteLimits(t testing.TB, rate int64) map[string]weir.Throttle {
	limits := map[string]weir.Throttle{}
	for _, w := range []quota.WindowKind{quota.Fixed, quota.Sliding, quota.GCRA} {
		q,
			err := quota.New(quota.Options{Policies: []quota.Policy{{Name: "traffic", Kind: quota.Volume,
			Limit:  quota.Bytes(weir.Size(rate)),
			Period: weir.Period{Length: time.Second}, Window: w, Over: quota.OverDelay,
			Delay: quota.Delay{MaxWait: weir.Duration(100 * time.Millisecond)}}}})
		if err != nil {
			t.Fatal(err)
		}
		limits["volume "+string(w)] = q
	}
	l, err := bloom.New(bloom.Options{Rate: weir.Rate{Count: rate, Per: time.Second}, Count: bloom.Bytes,
		Attackers: 100}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	limits["bloom"] = l.Throttle()
	return limits
}

// A flood is clients of one source that move as many bytes as they can, and what has arrived at either end.
type flood struct {
	*rig
	ctx  context.Context
	seen atomic.Int64
}

// newFlood starts a gate before an upstream that sends without end, and takes what it is sent.
func newFlood(t *testing.T, ctx context.Context, throttle weir.Throttle) *flood {
	f := &flood{ctx: ctx}
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_,
				_ = io.WriteString(c,
				"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			go func() { _, _ = io.Copy(c, zeros{}) }()
			_, _ = io.Copy(io.Discard, f.count(rw))
		case r.Method == "POST":
			_, _ = io.Copy(io.Discard, f.count(r.Body))
		default:
			_, _ = io.Copy(w, zeros{})
		}
	})
	f.rig = start(t, Options{Upstream: to(up.URL)}, throttle)
	return f
}

// waits reports whether a request waits to be let in.
func (r *rig) waits() bool { r.seen.mu.Lock(); defer r.seen.mu.Unlock(); return r.seen.waiting > 0 }

// refuses reports whether a request was turned away.
func (r *rig) refuses() bool {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	return r.seen.served[http.StatusTooManyRequests] > 0
}

// count counts what is read.
func (f *flood) count(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		f.seen.Add(int64(n))
		return n, err
	})
}

// download reads so many bytes of an answer, and gives the rest up.
func (f *flood) download(c *http.Client, size int64) {
	req, _ := http.NewRequestWithContext(f.ctx, "GET", f.url, nil)
	if res, err := c.Do(req); err == nil {
		if res.StatusCode == http.StatusOK {
			_, _ = io.Copy(io.Discard, io.LimitReader(f.count(res.Body), size))
		}
		_ = res.Body.Close()
	}
}

// upload sends so many bytes; an aborted one says that it has more.
func (f *flood) upload(c *http.Client, size int64, abort bool) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	body := io.LimitReader(zeros{}, size)
	if abort {
		body = io.MultiReader(body, readerFunc(func([]byte) (int, error) { cancel(); return 0, io.ErrUnexpectedEOF }))
	}
	req, _ := http.NewRequestWithContext(ctx, "POST", f.url, body)
	if res, err := c.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// upgrade talks in both directions over a connection that is not HTTP any more.
func (f *flood) upgrade(size int64) {
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		return
	}
	defer context.AfterFunc(f.ctx, func() { _ = c.Close() })()
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	br := bufio.NewReader(c)
	if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		return
	}
	go func() { _, _ = io.Copy(c, zeros{}) }()
	_, _ = io.Copy(io.Discard, io.LimitReader(f.count(br), size))
}

// pipeline sends many requests at once on one connection, and reads their answers without end.
func (f *flood) pipeline(size int64) {
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		return
	}
	defer context.AfterFunc(f.ctx, func() { _ = c.Close() })()
	defer c.Close()
	for range 10 {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	br := bufio.NewReader(c)
	if res, err := http.ReadResponse(br, nil); err == nil && res.StatusCode == http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(f.count(res.Body), size))
	}
}

// TestUpgradedInPieces: what flows over an upgraded connection comes in small pieces as it is granted, and not when a
// whole buffer is.
func TestUpgradedInPieces(t *testing.T) {
	for name, throttle := range byteLimits(t, 10_000) {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			f := newFlood(t, ctx, throttle)
			done := make(chan struct{})
			go func() { f.upgrade(1 << 40); close(done) }() // until it is stopped
			for range 4 {                                   // seconds
				before := f.seen.Load()
				for range 100 {
					needs.Wait(t, "somebody waits", func() bool { return f.clock.Pending() > 0 })
					f.clock.Advance(10 * time.Millisecond)
				}
				needs.Wait(t, "a second's worth, but for two pieces in hand",
					func() bool { return f.seen.Load()-before >= 1_000 })
			}
			stop()
			needs.Wait(t, "over", func() bool {
				f.clock.Advance(100 * time.Millisecond)
				select {
				case <-done:
					return f.UnderWay.Load() == 0
				default:
					return false
				}
			})
		})
	}
}

// TestUploadAfterTheAnswer: an upstream that answers at once does not make the rest of an upload free. What is still
// read when the request has been settled is charged to nobody, and does not go on.
func TestUploadAfterTheAnswer(t *testing.T) {
	const rate = 10_000
	for name, throttle := range byteLimits(t, rate) {
		t.Run(name, func(t *testing.T) {
			var got atomic.Int64
			var conns sync.WaitGroup
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer conns.Wait()
			defer l.Close()
			conns.Go(func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					conns.Go(func() {
						defer c.Close()
						br := bufio.NewReader(c)
						if _, err := http.ReadRequest(br); err != nil {
							return
						}
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
						n, _ := io.Copy(io.Discard, br)
						got.Add(n)
					})
				}
			})
			g := start(t, Options{Upstream: to("http://" + l.Addr().String())}, throttle)
			for held := false; !held && !g.refuses(); {
				c := g.dial()
				g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
				go func() { _, _ = io.Copy(c, zeros{}) }()
				answered := make(chan struct{})
				go func() { _, _ = http.ReadResponse(bufio.NewReader(c), nil); close(answered) }()
				needs.Wait(t, "answered or held", func() bool {
					select {
					case <-answered:
						return g.UnderWay.Load() == 0
					default:
						held = g.clock.Pending() > 0 || g.waits()
						return held
					}
				})
				_ = c.Close()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = g.Stop(ctx)
			_ = l.Close()
			conns.Wait()
			if n := got.Load(); n > rate*9/8 {
				t.Errorf("the upstream got %d bytes at %d/s while no time passed", n, rate)
			}
		})
	}
}

// TestParallelRequests: a source gets its limit, however many requests it has under way, over HTTP/1, HTTP/2 and
// upgraded connections, in both directions together, and while it gives some of them up.
func TestParallelRequests(t *testing.T) {
	const rate, length = 10_000, 4 * time.Second
	for name, throttle := range byteLimits(t, rate) {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			f := newFlood(t, ctx, throttle)
			one, two := client(), h2c()
			defer two.CloseIdleConnections()
			var clients sync.WaitGroup
			for i := range 28 {
				luck := rand.New(rand.NewPCG(2, uint64(i)))
				clients.Go(func() {
					for ctx.Err() == nil {
						size := 1 + luck.Int64N(20_000)
						switch i % 7 {
						case 0:
							f.download(one, size)
						case 1:
							f.download(two, size)
						case 2:
							f.upload(one, size, false)
						case 3:
							f.upload(two, size, false)
						case 4:
							f.upload(one, size, true)
						case 5:
							f.upgrade(size)
						default:
							f.pipeline(size)
						}
					}
				})
			}
			for f.clock.Now().Before(epoch.Add(length)) {
				needs.Wait(t, "somebody waits for the clock", func() bool { return f.clock.Pending() > 0 })
				now := f.clock.Now()
				seen, most := f.seen.Load(), int64(now.Sub(epoch).Seconds()*rate)+rate*9/8
				if seen > most {
					t.Fatalf("%d bytes after %s, want at most %d", seen, now.Sub(epoch), most)
				}
				f.clock.Advance(10 * time.Millisecond)
				throttle.(weir.Clocked).Advance(f.clock.Now())
			}
			needs.Wait(t, "a second's worth gets through", func() bool {
				f.clock.Advance(10 * time.Millisecond)
				throttle.(weir.Clocked).Advance(f.clock.Now())
				return f.seen.Load() >= rate
			})
			stop()
			done := make(chan struct{})
			go func() { clients.Wait(); close(done) }()
			needs.Wait(t, "over", func() bool {
				f.clock.Advance(100 * time.Millisecond)
				throttle.(weir.Clocked).Advance(f.clock.Now())
				select {
				case <-done:
					return f.UnderWay.Load() == 0
				default:
					return false
				}
			})
		})
	}
}
