package flood

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
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

	turnWork     = 100 * time.Millisecond // of the scenes whose parts have places
	uploadSize   = 1 << 20
	uploadSource = 1 << 15 // the visitor that they are from
	uploadPause  = 100 * time.Millisecond
	uploadPiece  = 123 // bytes: 1.2 KiB a second
)

// What clients should get in these scenes.
const (
	sceneTarget = 0.95 // of the clients are served
	pageTarget  = 2    // times as long as without the payer is what a page may take, its stamp not counted
	turnTarget  = 1.5  // times what equal turns give is what 95 % of the pages may take
)

// A part is one round of a scene.
type part struct {
	beside string // who else is there
	payers int    // addresses of an attacker who pays
	places int    // of the service, where it is not that of all scenes
	paid   bool   // uploads are, and come byte by byte
}

// turns is how long a page takes at most where all clients have equal turns: a round for each request.
func (p part) turns() time.Duration {
	return turnWork*time.Duration((1+pageParts)*(p.payers+1))/time.Duration(p.places) + 2*turnWork
}

// parts are the rounds that a scene has with each front.
func (s Scene) parts() []part {
	switch s {
	case Payer:
		return []part{{beside: "nobody"}, {beside: "a payer", payers: 1},
			{beside: "a payer, 50 addresses", payers: spreadSources}}
	case Turns:
		return []part{{beside: "12 payers, 4 places", payers: 12, places: 4},
			{beside: "12 payers, 8 places", payers: 12, places: 8},
			{beside: "12 payers, 64 places", payers: 12, places: 64},
			{beside: "50 payers, 8 places", payers: spreadSources, places: 8}}
	case Shared:
		return []part{{beside: "20 payers", payers: 20, places: 8}}
	case Uploads:
		return []part{{beside: "slow uploads", places: 8}, {beside: "paid, byte by byte", places: 8, paid: true}}
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
	if s != Payer {
		one.Met = !slices.ContainsFunc(one.Parts, func(p Part) bool { return !p.met() })
		return
	}
	first := &one.Parts[0]
	for i := range one.Parts[1:] {
		if p := &one.Parts[i+1]; first.MedianMS > 0 {
			p.Times = p.MedianMS / first.MedianMS
		}
	}
	beside := &one.Parts[judgedPart]
	// Where half of the pages never came, the median is the patience of people, which says nothing.
	one.Met = first.Clients.Share > 0.5 && beside.Clients.Share > 0.5 && beside.Times <= pageTarget
}

// met reports whether enough clients were served, and soon enough.
func (p *Part) met() bool {
	c := &p.Clients
	return c.Offered > 0 && c.Share >= sceneTarget && (p.TurnsMS == 0 || c.P95 <= turnTarget*p.TurnsMS)
}

func (s Scene) part(ctx context.Context, f contender, o Options, p part, watch func(time.Duration)) (Part, error) {
	if err := ctx.Err(); err != nil {
		return Part{}, err
	}
	o = s.options(o)
	if p.places > 0 {
		o.Concurrent, o.Work = p.places, turnWork
	}
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
	case Uploads:
		attack = newTally(Options{For: o.WarmUp + o.For})
		cast = []actor{r.programs(), r.uploads(p, attack)}
	case Payer, Turns, Shared:
		patience = o.hurried(pagePatience)
		cast = []actor{r.readers(patience, s)}
		if p.payers > 0 {
			core, err := stage.addSolver(o)
			if err != nil {
				return Part{}, err
			}
			attack = newTally(o)
			cast = append(cast, r.payer(&payer{solver: core, sources: p.payers, each: s != Payer,
				tally: attack}))
		}
	}
	if err := r.perform(ctx, watch, cast...); err != nil {
		return Part{}, err
	}
	got := Part{Beside: p.beside, Clients: r.tally.of(people), Attack: attack.of(flood), Stamps: stampsOf(r.tally.paid)}
	got.MedianMS = milliseconds(r.tally.median(people, patience))
	if s == Turns {
		got.TurnsMS = milliseconds(p.turns())
	}
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
		r.come(ctx, gap(), gap, func(ctx context.Context, n int, _ time.Duration) (result, time.Duration) {
			one := caller{front: c.front, proxy: c.proxy, source: visitorSource(people, n), tries: callTries,
				pause: r.o.hurried(callPause), wait: r.o.hurried(callWait)}
			return one.call(ctx), 0
		})
	}
}

// keyHolder lets the client of an API come, with one key and from one address. It does not try again.
func (r *round) keyHolder() actor {
	return func(ctx context.Context, c *crowd) {
		one := caller{front: c.front, proxy: c.proxy, source: visitorSource(people, 0), key: "acme", tries: 1,
			wait: r.o.hurried(callWait)}
		r.come(ctx, r.o.WarmUp%callEvery, func() time.Duration { return callEvery },
			func(ctx context.Context, _ int, _ time.Duration) (result, time.Duration) {
				return one.call(ctx), 0
			})
	}
}

// readers lets people come who look at one page each. In the scene Shared all have the same address. The time does not
// count in which they make stamps: here their devices share the processors of the attacker and of the front.
func (r *round) readers(patience time.Duration, s Scene) actor {
	return func(ctx context.Context, c *crowd) {
		r.come(ctx, r.o.WarmUp%pageEvery, func() time.Duration { return pageEvery },
			func(ctx context.Context, n int, at time.Duration) (result, time.Duration) {
				patient, cancel := context.WithDeadline(ctx, r.begin.Add(at+patience))
				defer cancel()
				v := c.visitor(people, n)
				if s == Shared {
					v.source = visitorSource(people, 0)
				}
				return v.load(patient, at), v.solving
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

// uploads lets one address come with a slow upload for each place, and with another one when one is over. The round
// does not wait for their results.
func (r *round) uploads(p part, t *tally) actor {
	return func(ctx context.Context, c *crowd) {
		r.waits.Done()
		paying := *c
		paying.tally = t
		var all sync.WaitGroup
		for range p.places {
			all.Go(func() {
				via := &http.Transport{WriteBufferSize: 1} // each piece is sent
				defer via.CloseIdleConnections()
				v := paying.visitor(without, uploadSource)
				v.client.Transport, v.piece = via, uploadPiece
				if p.paid {
					v.group, v.piece = people, 1
				}
				for ctx.Err() == nil {
					at := time.Since(r.begin)
					res, _ := v.try(ctx, at)
					t.add(flood, at, time.Since(r.begin)-at, res)
					machine.Sleep(ctx, uploadPause)
				}
			})
		}
		all.Wait()
	}
}

// A slowBody is sent so many bytes at a time.
type slowBody struct {
	ctx         context.Context
	piece, left int
}

func (b *slowBody) Read(to []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if !machine.Sleep(b.ctx, uploadPause) {
		return 0, b.ctx.Err()
	}
	n := min(b.piece, b.left, len(to))
	clear(to[:n])
	b.left -= n
	return n, nil
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
