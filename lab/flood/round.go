package flood

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"weir/lab/machine"
)

// A round is one flood against one front.
type round struct {
	o      Options
	kind   Kind
	front  string // its address
	solver solver
	tally  *tally
	begin  time.Time

	waits   sync.WaitGroup // for clients whose result counts, and for actors that may still send some
	workers sync.WaitGroup // for all of them
}

// lookEvery is how often the progress is looked at.
const lookEvery = 100 * time.Millisecond

// play lets all clients come until the result of the last is known who came in time, or ctx ends. watch is called now
// and then.
func (r *round) play(ctx context.Context, watch func(elapsed time.Duration)) error {
	s := &swarm{front: r.front, rate: r.o.rate(flood), sources: r.o.sources(r.kind), accept: acceptPage,
		wait: swarmPatience, workers: swarmConnections, tally: r.tally}
	return r.perform(ctx, watch,
		func(ctx context.Context, _ *crowd) { s.run(ctx, r.begin, r.waits.Done) },
		func(ctx context.Context, c *crowd) { r.arrive(ctx, c, people, sessionPages, r.o.Patience) },
		func(ctx context.Context, c *crowd) { r.arrive(ctx, c, without, 1, r.o.Patient) })
}

// An actor lets clients come until ctx ends. It calls waits.Done once, when no more clients come whose result counts.
type actor func(ctx context.Context, c *crowd)

// perform runs the actors until the result of the last client is known that came in time, or ctx ends.
func (r *round) perform(ctx context.Context, watch func(elapsed time.Duration), actors ...actor) error {
	whole, stop := context.WithCancel(ctx)
	defer stop()
	r.begin = time.Now()
	// and no proxy: it is loopback
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, MaxIdleConns: 1024, DisableCompression: true}
	defer transport.CloseIdleConnections()
	c := &crowd{front: r.front, proxy: transport, reload: r.o.Reload, tally: r.tally, solver: r.solver}
	r.waits.Add(len(actors))
	for _, a := range actors {
		r.workers.Go(func() { a(whole, c) })
	}
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

// How people use a site: so many pages, and so long between two of them on average. A stamp covers all of them.
const (
	sessionPages = 10
	sessionPause = time.Second
)

// arrive lets the visitors of a group come at random times, which are the same in every round. Visitors with several
// pages have begun before the round, so that they are at various pages at its beginning.
func (r *round) arrive(ctx context.Context, c *crowd, g group, pages int, patience time.Duration) {
	over := sync.OnceFunc(r.waits.Done) // nobody is to come any more whose fate is counted
	defer over()
	random, rate := rand.New(rand.NewPCG(uint64(g), 9)), r.o.rate(g)/float64(pages)
	for n, at := 0, -3*time.Duration(pages-1)*sessionPause; ; n++ {
		at += exponential(random, time.Duration(float64(time.Second)/rate))
		if !r.tally.takes(at) {
			over()
		}
		if !machine.Sleep(ctx, time.Until(r.begin.Add(at))) {
			return
		}
		session := rand.New(rand.NewPCG(uint64(g), uint64(10+n)))
		if r.tally.takes(at) {
			r.waits.Add(1)
		}
		r.workers.Go(func() { r.stay(ctx, c.visitor(g, n), at, pages, patience, session) })
	}
}

// stay lets a visitor look at their pages. They do not wait for one before the next, so that the load does not depend
// on who is served.
func (r *round) stay(ctx context.Context, v *visitor, at time.Duration, pages int, patience time.Duration,
	random *rand.Rand) {
	over := func() {}
	if r.tally.takes(at) {
		over = sync.OnceFunc(r.waits.Done)
	}
	defer over()
	for ; pages > 0; pages-- {
		counts := r.tally.takes(at)
		if !counts {
			over()
		}
		if at >= 0 { // else it was before the beginning
			if !machine.Sleep(ctx, time.Until(r.begin.Add(at))) {
				return
			}
			r.look(ctx, v, at, patience, counts)
		}
		at += exponential(random, sessionPause)
	}
}

func (r *round) look(ctx context.Context, v *visitor, at, patience time.Duration, counts bool) {
	r.visit(v.group, at, counts, func() (result, time.Duration) {
		// Patience begins when they should have come, even where this machine is late.
		patient, cancel := context.WithDeadline(ctx, r.begin.Add(at+patience))
		defer cancel()
		return v.view(patient, at), 0
	})
}

// visit runs a visit that should begin at a time, beside all others, and counts its result if it counts. do also
// returns how much of its time does not count.
func (r *round) visit(g group, at time.Duration, counts bool, do func() (result, time.Duration)) {
	if !counts {
		r.workers.Go(func() { do() })
		return
	}
	r.waits.Add(1)
	r.workers.Go(func() {
		defer r.waits.Done()
		res, free := do()
		r.tally.add(g, at, time.Since(r.begin)-at-free, res)
	})
}

// come lets a client come at first, and another one after each gap. visit returns the result of one.
func (r *round) come(ctx context.Context, first time.Duration, gap func() time.Duration,
	visit func(ctx context.Context, n int, at time.Duration) (result, time.Duration)) {
	over := sync.OnceFunc(r.waits.Done)
	defer over()
	for n, at := 0, first; ; n, at = n+1, at+gap() {
		counts := r.tally.takes(at)
		if !counts {
			over()
		}
		if !machine.Sleep(ctx, time.Until(r.begin.Add(at))) {
			return
		}
		r.visit(people, at, counts, func() (result, time.Duration) { return visit(ctx, n, at) })
	}
}

func exponential(random *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(random.ExpFloat64() * float64(mean))
}
