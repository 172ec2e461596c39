package tcpgate

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/gate"
	"weir/internal/testkit/needs"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// byteLimits are throttles with a limit of so many bytes a second for each source, and what of it may come at once.
func byteLimits(t testing.TB, rate int64) map[string]func() (throttle weir.Throttle, burst int64) {
	volume := func(w quota.WindowKind) func() (weir.Throttle, int64) {
		return func() (weir.Throttle, int64) {
			// A short max_wait: whoever has waited for it asks again, and does not go on.
			return newQuota(t, quota.Policy{Name: "traffic", Kind: quota.Volume, Limit: quota.Bytes(weir.Size(rate)),
				Period: weir.Period{Length: time.Second}, Window: w, Over: quota.OverDelay,
				Delay: quota.Delay{MaxWait: weir.Duration(100 * time.Millisecond)}}), rate
		}
	}
	return map[string]func() (weir.Throttle, int64){
		"bloom": func() (weir.Throttle, int64) {
			l, err := bloom.New(bloom.Options{Rate: weir.Rate{Count: rate, Per: time.Second}, Count: bloom.Bytes,
				Attackers: 100}, epoch)
			if err != nil {
				t.Fatal(err)
			}
			return l.Throttle(), rate
		},
		"gcra":    volume(quota.GCRA),
		"fixed":   volume(quota.Fixed),
		"sliding": volume(quota.Sliding),
	}
}

// A source gets its limit, however many connections it has, in both directions together, and while it opens and closes
// them.
func TestParallelConnections(t *testing.T) {
	const rate, conns, length = 10_000, 36, 4 * time.Second
	for name, limit := range byteLimits(t, rate) {
		t.Run(name, func(t *testing.T) {
			throttle, burst := limit()
			g := start(t, Options{Upstream: serve(t, func(c *net.TCPConn) {
				go func() { _, _ = io.Copy(io.Discard, c) }()
				_, _ = io.Copy(c, zeros{})
			})}, throttle)
			stop := make(chan struct{})
			var clients sync.WaitGroup
			for i := range conns {
				luck := rand.New(rand.NewPCG(1, uint64(i)))
				clients.Go(func() {
					for opened := 0; i%3 != 1 || opened < 5; opened++ { // uploads leave connections behind
						select {
						case <-stop:
							return
						default:
						}
						c, err := g.try("")
						if err != nil {
							continue // turned away so soon that it did not come about
						}
						deadline(c)
						ended := make(chan struct{})
						go func() {
							select {
							case <-stop:
							case <-ended:
							}
							_ = c.Close()
						}()
						some := 1 + luck.Int64N(20_000)
						switch i % 3 {
						case 0:
							_, _ = io.Copy(io.Discard, io.LimitReader(c, some))
						case 1: // the gate is left with what it has not yet read
							_, _ = io.Copy(c, io.LimitReader(zeros{}, some))
						default:
							_, _ = io.Copy(c, zeros{})
						}
						close(ended)
					}
				})
			}
			flowed := func() int64 { return g.seen.in.Load() + g.seen.out.Load() }
			for g.clock.Now().Before(epoch.Add(length)) {
				needs.Wait(t, "somebody waits for the clock", func() bool {
					return int64(g.clock.Pending()) > g.Open.Load() || g.waiting.Len() > 0
				})
				now := g.clock.Now()
				if n, most := flowed(), int64(now.Sub(epoch).Seconds()*rate)+burst*9/8; n > most {
					t.Fatalf("%d bytes after %s, want at most %d", n, now.Sub(epoch), most)
				}
				g.clock.Advance(10 * time.Millisecond)
				throttle.(weir.Clocked).Advance(g.clock.Now())
			}
			needs.Wait(t, "a second's worth gets through", func() bool {
				g.clock.Advance(10 * time.Millisecond)
				throttle.(weir.Clocked).Advance(g.clock.Now())
				return flowed() >= rate
			})
			close(stop)
			_ = g.Stop(ended()) // it ends all pauses
			clients.Wait()
		})
	}
}

// One download has the whole limit, and loses nothing.
func TestOneConnectionHasTheLimit(t *testing.T) {
	const rate, size = 100_000, 1_000_000
	for name, limit := range byteLimits(t, rate) {
		t.Run(name, func(t *testing.T) {
			throttle, burst := limit()
			g := start(t,
				Options{Upstream: serve(t, func(c *net.TCPConn) { _, _ = io.Copy(c, io.LimitReader(zeros{}, size)) })},
				throttle)
			c, done := g.dial(), make(chan struct{})
			go func() {
				defer close(done)
				if n, err := io.Copy(io.Discard, c); n != size || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			}()
			g.paced(done)
			took := g.clock.Now().Sub(epoch)
			least := time.Duration(size-burst*9/8) * time.Second / rate
			if took < least || took > time.Duration(size)*time.Second/rate*10/9 {
				t.Errorf("%d bytes at %d/s took %s", size, rate, took)
			}
		})
	}
}

// A client that leaves while its connection waits for bytes leaves nothing behind, and holds up nobody.
func TestLeavingWhileRationed(t *testing.T) {
	for name, limit := range byteLimits(t, 1000) {
		t.Run(name, func(t *testing.T) {
			throttle, _ := limit()
			g := start(t, Options{Upstream: echo(t)}, throttle)
			c := g.dial()
			send(t, c, strings.Repeat("x", 50_000))
			needs.Wait(t, "a pause", func() bool { return g.clock.Pending() > 1 && g.seen.in.Load() > 0 })
			gate.Reset(c)
			needs.Wait(t, "gone", func() bool { g.clock.Advance(time.Second); return g.Open.Load() == 0 })
			other := g.dial()
			send(t, other, "ping")
			got := make(chan error, 1)
			go func() { _, err := io.ReadFull(other, make([]byte, 4)); got <- err }()
			needs.Wait(t, "served", func() bool {
				g.clock.Advance(time.Second)
				throttle.(weir.Clocked).Advance(g.clock.Now())
				return len(got) == 1
			})
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}

// Replies that a limit on bytes does not grant are dropped: a small question does not buy a large answer. Those that
// come after a packet was turned away are charged, too.
func TestUDPRepliesAreRationed(t *testing.T) {
	for name, limit := range byteLimits(t, 10_000) {
		t.Run(name, func(t *testing.T) {
			throttle, _ := limit()
			long := strings.Repeat("x", 1000)
			var answers []string
			for range 50 {
				answers = append(answers, long)
			}
			more := make(chan struct{})
			g := start(t, Options{Protocol: UDP, Upstream: serveUDP(t, func(q string) []string {
				if q == "late" {
					<-more
				}
				return answers
			})}, throttle)
			c := g.client()
			send(t, c, "many")
			needs.Wait(t, "replies", func() bool {
				return int(g.seen.out.Load())/1000+
					g.seen.verdicts(weir.Refuse) == 50
			})
			if n := g.seen.out.Load(); n > 11_000 || n < 8_000 {
				t.Errorf("%d bytes of replies at 10000/s", n)
			}
			g.clock.Advance(5 * time.Second)
			before := g.seen.out.Load()
			send(t, c, "late")
			needs.Wait(t, "sent", func() bool { return g.seen.in.Load() == 8 })
			dropped := g.seen.verdicts(weir.Refuse) + g.seen.verdicts(weir.Wait)
			for i := range 15 { // over the limit by packets that get no reply yet
				send(t, c, fmt.Sprintf("%01000d", i))
				needs.Wait(t, "judged", func() bool {
					return int(g.seen.in.Load()-8)/1000+g.seen.verdicts(weir.Refuse)+
						g.seen.verdicts(weir.Wait)-dropped == i+1
				})
			}
			if g.seen.verdicts(weir.Refuse)+g.seen.verdicts(weir.Wait) == dropped {
				t.Fatal("nothing was turned away")
			}
			dropped = g.seen.verdicts(weir.Refuse)
			close(more)
			needs.Wait(t, "dropped", func() bool { return g.seen.verdicts(weir.Refuse) >= dropped+50 })
			// A quota grants a reply while a byte is left, and keeps the rest as a debt.
			if n := g.seen.out.Load(); n > before+1000 {
				t.Errorf("%d bytes of replies went uncharged", n-before)
			}
		})
	}
}

// However many ports a source sends from, replies and packets together have its limit.
func TestUDPManyClients(t *testing.T) {
	const rate, clients, replies = 10_000, 40, 10
	for name, limit := range byteLimits(t, rate) {
		t.Run(name, func(t *testing.T) {
			throttle, _ := limit()
			answers := slices.Repeat([]string{strings.Repeat("x", 1000)}, replies)
			g := start(t, Options{Protocol: UDP, Upstream: serveUDP(t, func(string) []string { return answers })},
				throttle)
			var sent, admitted int
			for range 5 { // seconds
				for range clients / 5 {
					send(t, g.client(), "many")
					sent++
					needs.Wait(t, "all are answered for", func() bool {
						admitted = int(g.seen.in.Load()) / 4
						dropped := g.seen.verdicts(weir.Refuse) + g.seen.verdicts(weir.Wait)
						return int(g.seen.out.Load())/1000+dropped == sent-admitted+admitted*replies
					})
				}
				// A quota grants a packet while a byte is left, and keeps the rest as a debt.
				flowed, most := g.seen.in.Load()+g.seen.out.Load(),
					int64(g.clock.Now().Sub(epoch).Seconds()*rate)+rate*9/8+1000
				if flowed > most {
					t.Errorf("%d bytes after %s, want at most %d", flowed, g.clock.Now().Sub(epoch), most)
				}
				g.clock.Advance(time.Second)
				throttle.(weir.Clocked).Advance(g.clock.Now())
			}
			if g.seen.out.Load() < 2*rate {
				t.Errorf("%d bytes of replies in five seconds", g.seen.out.Load())
			}
		})
	}
}
