package spool

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/store"
)

// handOver is how long addressees are left to the workers of this process. It begins again if they are still in flight.
const handOver = 10 * time.Minute

// handDue hands messages that are due to the workers, as many as fit, and resolves those whose lease is over.
func (d *delivery) handDue(ctx context.Context, now time.Time) error {
	d.under.add()
	defer d.under.done()
	ctx = context.WithoutCancel(ctx) // it is done for others too
	err := d.dispatch.do(now, func(now time.Time) error {
		for more := true; more && d.halt.Err() == nil; {
			b := batch{delivery: d, now: now, all: d.gates.Load()}
			if err := d.update(ctx, b.pick); err != nil {
				b.giveBack()
				return err
			}
			b.hand()
			more = b.more
		}
		return nil
	})
	if err != nil {
		d.complain(&d.failing.hands, "mail that is due cannot be handed over yet", "error", err)
		d.expect(d.clock.Now().Add(soon))
	}
	return err
}

// A batch is what is handed over in one transaction.
type batch struct {
	delivery   *delivery
	now        time.Time
	all        *gates
	jobs       []*job
	overflowed map[*gateway]bool
	lost       map[string]int // messages of gates that are gone
	ambiguous  map[string]int // recipients
	more       bool
}

// giveBack gives back the reserved slots.
func (b *batch) giveBack() {
	for _, j := range b.jobs {
		j.gate.unreserve()
	}
	b.jobs = nil
}

// pick finds what is due. It may be run again.
func (b *batch) pick(tx store.MailTx) error {
	b.giveBack()
	b.overflowed, b.lost, b.ambiguous, b.more = map[*gateway]bool{}, map[string]int{}, map[string]int{}, false
	due, err := tx.Ready(b.now, false, handBatch)
	if err != nil {
		return err
	}
	seen := map[store.MailID]bool{}
	changed := 0
	for i := range due {
		id := due[i].Mail
		if seen[id] {
			continue
		}
		seen[id] = true
		n, err := b.pickOne(tx, id)
		if err != nil {
			return err
		}
		changed += n
	}
	b.more = len(due) == handBatch && changed > 0
	return nil
}

// pickOne looks at one message, and returns how many of its addressees are not due any more.
func (b *batch) pickOne(tx store.MailTx, id store.MailID) (changed int, err error) {
	m, err := readMail(tx, id)
	if err != nil {
		return 0, err
	}
	var ready, put []store.Addressee
	var end ending
	for _, a := range m.To {
		switch {
		case a.State != store.Ready && a.State != store.Sending || a.Due.After(b.now):
		case a.Owner == b.delivery.opts.Owner && b.delivery.flight.has(&a): // a worker still has it
			if a.State == store.Sending {
				a.Due = b.now.Add(lease)
			} else {
				a.Due = b.now.Add(handOver)
			}
			put = append(put, a)
		case a.State == store.Sending:
			end.doubt(b.all.out(m.Gate), &m.Message, &a, b.now, "its lease is over")
		default:
			ready = append(ready, a)
		}
	}
	if end.ambiguous > 0 {
		b.ambiguous[m.Gate] += end.ambiguous
		put = append(put, end.put...)
		if err := logAll(tx, end.entries); err != nil {
			return 0, err
		}
	}
	put = append(put, b.assign(&m.Message, ready)...)
	return len(put), tx.PutAddressees(put...)
}

// assign reserves a slot for a message, and returns its addressees as they are to be stored: none if it has to wait.
func (b *batch) assign(m *store.Message, ready []store.Addressee) []store.Addressee {
	if len(ready) == 0 {
		return nil
	}
	due, owner, way := b.now.Add(handOver), b.delivery.opts.Owner, b.all.way(m.Gate)
	switch {
	case way == nil:
		b.lost[m.Gate]++
		due, owner = b.now.Add(gonePause), ""
	case way.reserve():
		b.jobs = append(b.jobs, &job{gate: way, message: *m, to: ready})
	default:
		b.overflowed[way] = true
		if !slices.ContainsFunc(b.all.list, func(way *gateway) bool { return !way.full() }) {
			return nil
		}
		due, owner = b.now.Add(fullPause), "" // or it would hide messages of other gates
	}
	for i := range ready {
		ready[i].Due, ready[i].Owner = due, owner
	}
	return ready
}

func (b *batch) hand() {
	for _, j := range b.jobs {
		b.delivery.hand(j)
	}
	for way := range b.overflowed {
		b.delivery.overflow(way)
	}
	for gate, n := range b.lost {
		b.delivery.log.Warn("mail waits for a gate that is gone", "gate", gate, "messages", n)
	}
	for gate, n := range b.ambiguous {
		b.delivery.tell.Ambiguous(gate, n)
		b.delivery.log.Warn("nobody knows whether mail was delivered", "gate", gate, "recipients", n)
	}
}

// wakeIfFree wakes Run if a gate has free slots again, for messages that did not fit or wait in the pool.
func (d *delivery) wakeIfFree(g *gateway) {
	if g.overflowed.Load() && g.slots.Load() <= int64(cap(g.queue)/2) && g.overflowed.CompareAndSwap(true, false) {
		d.wakeUp()
	}
	if d.pooled.Load() && g.load() < g.conf.Load().PoolBelow {
		d.wakeUp()
	}
}

// overflow notes that something did not fit into the queue of a gate.
func (d *delivery) overflow(g *gateway) {
	d.tell.Bounded(BoundQueue)
	g.overflowed.Store(true)
	d.wakeIfFree(g) // a slot may have become free just now
}

// A single lets one goroutine run a function. Callers in the meantime have it run once more by that goroutine.
type single struct {
	mu      sync.Mutex
	running bool
	want    bool
	at      time.Time // the latest time that a caller wants
}

// do runs f, or has it run, as of now or later. Either way it finds what is due for the last caller.
func (o *single) do(now time.Time, f func(now time.Time) error) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.want || now.After(o.at) {
		o.at = now
	}
	o.want = true
	if o.running {
		return nil
	}
	for o.running = true; o.want; {
		at := o.at
		o.want = false
		func() {
			o.mu.Unlock()
			defer o.mu.Lock()
			err = f(at)
		}()
	}
	o.running = false
	return err
}

// learnPooled reads whether something waits in the pool.
func (d *delivery) learnPooled(ctx context.Context) error {
	return d.store.View(ctx, func(tx store.MailTx) error {
		_, states, err := tx.Count()
		d.pooled.Store(states[store.Pooled] > 0)
		return err
	})
}

// drainPool lets messages without stamps go on at gates with little to do.
func (d *delivery) drainPool(ctx context.Context, now time.Time) error {
	if !d.pooled.Load() {
		return nil
	}
	moved := 0
	err := d.update(ctx, func(tx store.MailTx) error {
		moved = 0
		rows, err := tx.Ready(now, true, handBatch)
		if err != nil {
			return err
		}
		all, free, found := d.gates.Load(), map[string]int{}, false
		for i := range rows {
			a := &rows[i]
			if a.State != store.Pooled {
				continue
			}
			found = true
			l, err := tx.Message(a.Mail)
			if err != nil {
				return err
			}
			if _, known := free[l.Gate]; !known {
				free[l.Gate] = all.way(l.Gate).poolable()
			}
			if free[l.Gate] <= 0 {
				continue
			}
			free[l.Gate]--
			makeReady(a, now)
			if err := tx.PutAddressees(*a); err != nil {
				return err
			}
			moved++
		}
		d.pooled.Store(found)
		return nil
	})
	if err != nil || moved == 0 {
		return err
	}
	return d.handDue(ctx, now)
}
