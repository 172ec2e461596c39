package spool

import (
	"context"
	"sync"
	"sync/atomic"

	"weir/internal/logs"
	"weir/store"
)

// A delivery hands messages to the next hop. It has the workers of each gate and their jobs.
type delivery struct {
	*env
	trail     trail // the last steps
	flight    flight
	bytes     atomic.Int64 // of texts in memory
	parked    parked
	dispatch  single
	pooled    atomic.Bool // something may wait in the pool
	tookOver  atomic.Bool // what another run has left is taken over
	unknown   unknown
	workersMu sync.Mutex // of gateway.workers

	// When halt ends, nothing new is begun, and deliveries before their final dot are broken off. When base ends, all
	// of them are.
	base     context.Context
	cut      context.CancelFunc
	running  sync.WaitGroup // workers and what they have begun
	under    tally          // what is handed over and not finished
	finishes chan struct{}  // bounds how many ends are being stored

	failing struct{ ends, hands, takes logs.Line } // errors of the store
}

func newDelivery(e *env) *delivery {
	d := &delivery{env: e, finishes: make(chan struct{}, maxFinishes)}
	d.base, d.cut = context.WithCancel(context.Background())
	return d
}

// Load is how many messages there are to deliver at a gate, in proportion to how many can be delivered at once.
func (d *delivery) Load(gate string) float64 {
	g := d.gates.Load().byName[gate]
	if g == nil {
		return 0
	}
	return g.load()
}

// Idle waits until nothing is left that was handed to the workers.
func (d *delivery) Idle(ctx context.Context) error { return d.under.wait(ctx) }

// startWorkers gives each gate as many workers as it should have.
func (d *delivery) startWorkers(all *gates) {
	d.workersMu.Lock()
	defer d.workersMu.Unlock()
	for _, g := range all.list {
		want := g.conf.Load().Connections
		g.want.Store(int64(want))
		for ; g.workers < want; g.workers++ {
			number := int64(g.workers)
			d.running.Go(func() { d.work(g, number) })
		}
	}
}

// work is a worker. One that is not wanted any more ends after its next message.
func (d *delivery) work(g *gateway, number int64) {
	for {
		select {
		case <-d.halt.Done():
			return
		case <-g.quit:
			d.drop(g)
			return
		case j := <-g.queue:
			if d.halt.Err() != nil || g.gone() { // select chose at random
				d.forget(j)
				continue
			}
			d.deliver(j)
		}
		if number >= g.want.Load() {
			d.workersMu.Lock()
			if number >= g.want.Load() && int64(g.workers) == number+1 {
				g.workers--
				d.workersMu.Unlock()
				return
			}
			d.workersMu.Unlock()
		}
	}
}

// drop forgets the messages that wait at a gate that is gone.
func (d *delivery) drop(g *gateway) {
	for {
		select {
		case j := <-g.queue:
			d.forget(j)
		default:
			return
		}
	}
}

// hand hands a message over to the workers. Its slot was reserved before.
func (d *delivery) hand(j *job) {
	if j.text != nil && d.bytes.Add(int64(len(j.text))) > d.opts.Bytes {
		d.bytes.Add(-int64(len(j.text)))
		d.tell.Bounded(BoundBytes)
		j.text = nil
	}
	d.flight.add(j)
	d.under.add()
	j.gate.going.Add(1)
	j.gate.queue <- j
	if j.gate.gone() { // its workers may have ended already
		d.drop(j.gate)
	}
}

// forget ends a job that is not delivered now. The store still has the message.
func (d *delivery) forget(j *job) {
	j.gate.going.Add(-1)
	d.freeText(j)
	d.finished(j)
}

func (d *delivery) freeText(j *job) {
	d.bytes.Add(-int64(len(j.text)))
	j.text = nil
}

// finished ends what hand began.
func (d *delivery) finished(j *job) {
	d.flight.remove(j)
	j.gate.unreserve()
	d.under.done()
}

type addresseeKey struct {
	mail   store.MailID
	number int
}

// flight has the addressees that have been handed to workers. It is as bounded as their queues.
type flight struct {
	mu sync.Mutex
	in map[addresseeKey]int // how often: one may be handed over again just before it is removed here
}

func (f *flight) add(j *job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.in == nil {
		f.in = map[addresseeKey]int{}
	}
	for i := range j.to {
		f.in[addresseeKey{j.message.ID, j.to[i].Number}]++
	}
}

func (f *flight) remove(j *job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range j.to {
		at := addresseeKey{j.message.ID, j.to[i].Number}
		if f.in[at]--; f.in[at] <= 0 {
			delete(f.in, at)
		}
	}
}

func (f *flight) has(a *store.Addressee) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.in[addresseeKey{a.Mail, a.Number}] > 0
}

// A tally counts what is under way. The zero value is ready to use.
type tally struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n gets 0; nil if nobody waits
}

func (t *tally) add() {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
}

func (t *tally) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
}

func (t *tally) wait(ctx context.Context) error {
	t.mu.Lock()
	if t.n == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	none := t.none
	t.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
