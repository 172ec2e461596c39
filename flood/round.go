package flood

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// A round is one flood against one front.
type round struct {
	o      Options
	kind   Kind
	front  string // its address
	solver solver
	tally  *tally
	begin  time.Time

	waits   sync.WaitGroup // for those whose fate is counted, and for whoever may still send one of them
	workers sync.WaitGroup // for everybody
}

// play lets everybody come until the fate of the last is known who came in time, or ctx ends. watch is called now and then.
func (r *round) play(ctx context.Context, watch func(elapsed time.Duration)) error {
	whole, stop := context.WithCancel(ctx)
	defer stop()
	r.begin = time.Now()
	s := &swarm{front: r.front, rate: r.o.rate(flood), sources: r.o.sources(r.kind), workers: swarmConnections, tally: r.tally}
	r.waits.Add(3)
	r.workers.Go(func() { s.run(whole, r.begin, r.waits.Done) })
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, MaxIdleConns: 1024, DisableCompression: true} // and no proxy: it is loopback
	defer transport.CloseIdleConnections()
	v := &visitors{front: r.front, transport: transport, reload: r.o.Reload, tally: r.tally, solver: r.solver}
	r.workers.Go(func() { r.arrive(whole, v, people, r.o.Patience) })
	r.workers.Go(func() { r.arrive(whole, v, without, r.o.Patient) })

	decided := make(chan struct{})
	go func() {
		r.waits.Wait()
		close(decided)
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	watch(0)
	for {
		select {
		case <-tick.C:
			watch(time.Since(r.begin))
			continue
		case <-decided:
		}
		break
	}
	stop()
	r.workers.Wait()
	return ctx.Err()
}

// lookEvery is how often somebody looks how it goes.
const lookEvery = 100 * time.Millisecond

// arrive lets the visitors of a group come at random times, which are the same in every round.
func (r *round) arrive(ctx context.Context, v *visitors, g group, patience time.Duration) {
	over := sync.OnceFunc(r.waits.Done) // nobody is to come any more whose fate is counted
	defer over()
	random, rate := rand.New(rand.NewPCG(uint64(g), 9)), r.o.rate(g)
	for n, at := 0, time.Duration(0); ; n++ {
		at += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		counts := r.tally.takes(at)
		if !counts {
			over()
		}
		if !sleep(ctx, time.Until(r.begin.Add(at))) {
			return
		}
		if counts {
			r.waits.Add(1)
		}
		r.workers.Go(func() {
			// Patience begins when he should have come: what this machine is late by is no excuse.
			patient, cancel := context.WithDeadline(ctx, r.begin.Add(at+patience))
			defer cancel()
			res := v.visit(patient, g, n, at)
			if counts {
				r.tally.add(g, at, time.Since(r.begin)-at, res)
				r.waits.Done()
			}
		})
	}
}
