package spool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/mail/nexthop"
	"weir/store"
)

// taker takes everything at once, as a server does that is quicker than us.
type taker struct{ n atomic.Int64 }

func (c *taker) Deliver(_ context.Context, j *nexthop.Job) []nexthop.Result {
	results := make([]nexthop.Result, len(j.Recipients))
	text, err := j.Open()
	if err == nil {
		_, err = io.Copy(io.Discard, text)
		text.Close()
	}
	if err == nil {
		err = j.Committed()
	}
	if err != nil {
		results[0] = nexthop.Result{Outcome: nexthop.Later, Text: err.Error()}
		return results
	}
	c.n.Add(1)
	return results
}

// BenchmarkCycle is a mail of 4 KB from when it is accepted until it is gone, by twenty senders at once, on a real
// store.
func BenchmarkCycle(b *testing.B) {
	for _, senders := range []int{1, 20} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			c := &taker{}
			r := newRig(b, func(r *rig) {
				r.opts.Clock, r.gate.Carrier, r.gate.Connections = clock.System, c, 20
			})
			ctx, cancel := context.WithCancel(b.Context())
			var loop sync.WaitGroup
			loop.Go(func() { r.Run(ctx) })
			for i := range senders {
				r.user(store.User{Name: fmt.Sprintf("user%d", i), Contact: contact})
			}
			text := bytes.Repeat([]byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd\r\n"), 64)
			b.ResetTimer()
			var wg sync.WaitGroup
			var next atomic.Int64
			for i := range senders {
				user := fmt.Sprintf("user%d", i)
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						now := time.Now()
						staged := r.Stage()
						staged.Write(text)
						e := &Envelope{ID: r.NewID(now), Gate: gateName, User: user, Sender: user + "@example.org",
							Subject: "hello", To: []To{{Address: "ann@example.net"}}}
						if _, err := r.Accept(ctx, now, e, staged); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			accepted := b.Elapsed()
			for c.n.Load() < int64(b.N) {
				r.idle()
			}
			r.idle()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
			b.ReportMetric(float64(b.N)/accepted.Seconds(), "accepted/s")
			stats := r.store.Stats()
			b.ReportMetric(float64(stats.Writes)/float64(stats.Commits), "writes/commit")
			cancel()
			loop.Wait()
		})
	}
}
