package flood

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"weir/lab/machine"
)

// What the scenes other than UnderFlood are played with. Options.Haste divides the times, except those of the service.
const (
	sceneConcurrent = 4
	sceneWork       = 80 * time.Millisecond // 50 requests a second

	burst         = 6 * time.Second  // how long the flood lasts that is over
	burstRate     = 400              // its requests a second
	calm          = 10 * time.Second // from its end until clients are counted
	burstSwarm    = 2048             // its connections: it can have all its requests of five seconds unanswered
	callers       = 22               // programs that come in a second: 44 % of the capacity
	callTries     = 4
	callPause     = time.Second
	callWait      = 10 * time.Second
	inventedRate  = 200         // requests a second with invented keys
	callEvery     = time.Second // of the client with a key of its own
	pageEvery     = 2 * time.Second / 3
	pageParts     = 4 // what a page loads, at once
	pagePatience  = 30 * time.Second
	spreadSources = 50
)

// What clients should get in these scenes.
const (
	sceneTarget = 0.95 // of the clients are served
	pageTarget  = 2    // times as long as without the payer is what a page may take
)

// A part is one round of a scene.
type part struct {
	beside string // who else is there
	payers int    // addresses of an attacker who pays
}

// parts are the rounds that a scene has with each front.
func (s Scene) parts() []part {
	if s == Payer {
		return []part{{beside: "nobody"}, {"a payer", 1}, {"a payer, 50 addresses", spreadSources}}
	}
	return []part{{beside: map[Scene]string{AfterFlood: "a flood, before", Keys: "invented keys"}[s]}}
}

// options are those of a scene: it has a service of its own, and begins to count at its own time.
func (s Scene) options(o Options) Options {
	o.Concurrent, o.Work = sceneConcurrent, sceneWork
	if s == AfterFlood {
		o.WarmUp = o.hurried(burst + calm)
	}
	return o
}

func (o Options) hurried(d time.Duration) time.Duration { return time.Duration(float64(d) / o.Haste) }

// show plays a scene with one front. next is called before each round.
func (s Scene) show(ctx context.Context, f contender, o Options, next func() func(time.Duration)) (SceneRound, error) {
	one := SceneRound{Front: f.name, Title: f.title}
	before := machine.Busy()
	for _, p := range s.parts() {
		got, err := s.part(ctx, f, o, p, next())
		if err != nil {
			return SceneRound{}, err
		}
		one.Parts = append(one.Parts, got)
	}
	one.Others = machine.Busy().Others(before)
	s.judge(&one)
	return one, nil
}

// judgedPart is the round of the scene Payer that has a target: the attacker has one address.
const judgedPart = 1

// judge compares the result with the target. An attacker with many addresses is shown, and not judged.
func (s Scene) judge(one *SceneRound) {
	first := &one.Parts[0]
	if s != Payer {
		one.Met = first.Clients.Offered > 0 && first.Clients.Share >= sceneTarget
		return
	}
	for i := range one.Parts[1:] {
		if p := &one.Parts[i+1]; first.MedianMS > 0 {
			p.Times = p.MedianMS / first.MedianMS
		}
	}
	beside := &one.Parts[judgedPart]
	// Where half of the pages never came, the median is the patience of people, which says nothing.
	one.Met = first.Clients.Share > 0.5 && beside.Clients.Share > 0.5 && beside.Times <= pageTarget
}

func (s Scene) part(ctx context.Context, f contender, o Options, p part, watch func(time.Duration)) (Part, error) {
	if err := ctx.Err(); err != nil {
		return Part{}, err
	}
	o = s.options(o)
	stage, err := build(ctx, f, o, s == Keys)
	if err != nil {
		return Part{}, err
	}
	defer stage.strike()
	r := &round{o: o, front: stage.front.address, solver: stage.solver, tally: newTally(o)}
	attack, patience := r.tally, time.Duration(0)
	var cast []actor
	switch s {
	case AfterFlood:
		ended := o.hurried(burst)
		attack = newTally(Options{For: ended})
		cast = []actor{
			r.swarm(&swarm{rate: burstRate, sources: burstRate / slow, accept: acceptAny, until: ended,
				workers: burstSwarm, tally: attack}),
			r.programs(),
		}
	case Keys:
		cast = []actor{
			r.swarm(&swarm{rate: inventedRate, sources: 1, accept: acceptAny, keys: true, workers: swarmConnections,
				tally: attack}),
			r.keyHolder(),
		}
	case Payer:
		patience = o.hurried(pagePatience)
		cast = []actor{r.readers(patience)}
		if p.payers > 0 {
			core, err := stage.addSolver(o)
			if err != nil {
				return Part{}, err
			}
			attack = newTally(o)
			cast = append(cast, r.payer(&payer{solver: core, sources: p.payers, tally: attack}))
		}
	}
	if err := r.perform(ctx, watch, cast...); err != nil {
		return Part{}, err
	}
	got := Part{Beside: p.beside, Clients: r.tally.of(people), Attack: attack.of(flood), Stamps: stampsOf(r.tally.paid)}
	got.MedianMS = milliseconds(r.tally.median(people, patience))
	if attack != r.tally {
		got.AttackPaid = stampsOf(attack.paid)
	}
	return got, nil
}

func (r *round) swarm(s *swarm) actor {
	return func(ctx context.Context, _ *crowd) {
		s.front, s.wait = r.front, r.o.hurried(swarmPatience)
		s.run(ctx, r.begin, r.waits.Done)
	}
}

// programs lets programs come, each from an address of its own. They try again when they are refused.
func (r *round) programs() actor {
	return func(ctx context.Context, c *crowd) {
		random := rand.New(rand.NewPCG(uint64(people), 9)) // the same in every round
		gap := func() time.Duration { return exponential(random, time.Second/callers) }
		r.come(ctx, gap(), gap, func(ctx context.Context, n int, _ time.Duration) result {
			one := caller{front: c.front, proxy: c.proxy, source: visitorSource(people, n), tries: callTries,
				pause: r.o.hurried(callPause), wait: r.o.hurried(callWait)}
			return one.call(ctx)
		})
	}
}

// keyHolder lets the client of an API come, with one key and from one address. It does not try again.
func (r *round) keyHolder() actor {
	return func(ctx context.Context, c *crowd) {
		one := caller{front: c.front, proxy: c.proxy, source: visitorSource(people, 0), key: "acme", tries: 1,
			wait: r.o.hurried(callWait)}
		r.come(ctx, r.o.WarmUp%callEvery, func() time.Duration { return callEvery },
			func(ctx context.Context, _ int, _ time.Duration) result {
				return one.call(ctx)
			})
	}
}

// readers lets people come who look at one page each.
func (r *round) readers(patience time.Duration) actor {
	return func(ctx context.Context, c *crowd) {
		r.come(ctx, r.o.WarmUp%pageEvery, func() time.Duration { return pageEvery },
			func(ctx context.Context, n int, at time.Duration) result {
				patient, cancel := context.WithDeadline(ctx, r.begin.Add(at+patience))
				defer cancel()
				return c.visitor(people, n).load(patient, at)
			})
	}
}

// payer lets an attacker come who pays. The round does not wait for the results of those requests.
func (r *round) payer(p *payer) actor {
	return func(ctx context.Context, c *crowd) {
		r.waits.Done()
		p.front, p.proxy, p.begin = c.front, c.proxy, r.begin
		p.run(ctx)
	}
}

// load looks at a page as a browser does: the page first, and then its parts at once.
func (v *visitor) load(ctx context.Context, at time.Duration) result {
	v.accept = acceptPage
	if res := v.view(ctx, at); res != served {
		return res
	}
	v.accept = acceptAny
	var all [pageParts]result
	var parts sync.WaitGroup
	for i := range all {
		parts.Go(func() { all[i] = v.view(ctx, at) })
	}
	parts.Wait()
	return slices.Max(all[:]) // served is the least
}
