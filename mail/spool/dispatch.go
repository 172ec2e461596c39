package spool

import (
	"context"
	"sync"
	"time"

	"weir/store"
)

// handOver is how long addressees are left to the workers of this process, and again where they are in flight then.
const handOver = 10 * time.Minute

// handDue hands everything to the workers that is due and fits, and resolves mail whose lease is over.
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
	lost       map[string]int // mails of gates that are gone
	ambiguous  map[string]int // recipients
	more       bool
}

// giveBack gives back the slots that are not used.
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
		n, err := b.mail(tx, id)
		if err != nil {
			return err
		}
		changed += n
	}
	b.more = len(due) == handBatch && changed > 0
	return nil
}

// mail looks at one mail, and returns how many of its addressees are not due any more.
func (b *batch) mail(tx store.MailTx, id store.MailID) (changed int, err error) {
	l, err := tx.Letter(id)
	if err != nil {
		return 0, err
	}
	rows, err := tx.Addressees(id)
	if err != nil {
		return 0, err
	}
	var ready, put []store.Addressee
	var end ending
	way := b.all.way(l.Gate)
	for _, a := range rows {
		switch {
		case a.State != store.Ready && a.State != store.Sending || a.Due.After(b.now):
		case a.Owner == b.delivery.opts.Owner && b.delivery.flight.has(&a): // a worker has it, and it takes long
			if a.State == store.Sending {
				a.Due = b.now.Add(lease)
			} else {
				a.Due = b.now.Add(handOver)
			}
			put = append(put, a)
		case a.State == store.Sending:
			end.doubt(b.policy(way), &l, &a, b.now, "its lease is over")
		default:
			ready = append(ready, a)
		}
	}
	if end.ambiguous > 0 {
		b.ambiguous[l.Gate] += end.ambiguous
		put = append(put, end.put...)
		if err := logAll(tx, end.entries); err != nil {
			return 0, err
		}
	}
	put = append(put, b.assign(way, &l, ready)...)
	return len(put), tx.PutAddressees(put...)
}

// assign reserves a slot for a mail, and returns its addressees as they are to be stored: none where it has to wait.
func (b *batch) assign(way *gateway, l *store.Letter, ready []store.Addressee) []store.Addressee {
	if len(ready) == 0 {
		return nil
	}
	due, owner := b.now.Add(handOver), b.delivery.opts.Owner
	switch {
	case way == nil:
		b.lost[l.Gate]++
		due, owner = b.now.Add(gonePause), ""
	case way.reserve():
		b.jobs = append(b.jobs, &job{gate: way, letter: *l, to: ready})
	default:
		b.overflowed[way] = true
		if b.allFull() {
			return nil
		}
		due, owner = b.now.Add(fullPause), "" // or others would not be found behind it
	}
	for i := range ready {
		ready[i].Due, ready[i].Owner = due, owner
	}
	return ready
}

func (b *batch) allFull() bool {
	for _, way := range b.all.list {
		if !way.full() {
			return false
		}
	}
	return true
}

// policy is how a gate is configured; one that is gone sends again.
func (b *batch) policy(way *gateway) *Gate {
	if way == nil {
		g := Gate{}.withDefaults()
		return &g
	}
	return way.conf.Load()
}

func (b *batch) hand() {
	for _, j := range b.jobs {
		b.delivery.hand(j)
	}
	for way := range b.overflowed {
		b.delivery.overflow(way)
	}
	for gate, n := range b.lost {
		b.delivery.log.Warn("mail waits for a gate that is gone", "gate", gate, "mails", n)
	}
	for gate, n := range b.ambiguous {
		b.delivery.tell.Ambiguous(gate, n)
		b.delivery.log.Warn("nobody knows whether mail was delivered", "gate", gate, "recipients", n)
	}
}

// wakeIfFree wakes Run where a gate has free slots again, for what did not fit and for what waits in the pool.
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
	d.wakeIfFree(g) // which may have been so just now
}

// single lets one goroutine do something; those that come meanwhile have it done again by that one.
type single struct {
	mu   sync.Mutex // of the one that runs
	ask  sync.Mutex // of what follows
	want bool
	at   time.Time // the latest that was asked for
}

// do runs f, or has it run, as of now or later. In either case what is due for the last caller is found.
func (o *single) do(now time.Time, f func(now time.Time) error) (err error) {
	o.ask.Lock()
	if !o.want || now.After(o.at) {
		o.at = now
	}
	o.want = true
	o.ask.Unlock()
	for o.wanted() && o.mu.TryLock() {
		for at, want := o.take(); want; at, want = o.take() {
			err = f(at)
		}
		o.mu.Unlock()
	}
	return err
}

func (o *single) wanted() bool {
	o.ask.Lock()
	defer o.ask.Unlock()
	return o.want
}

func (o *single) take() (at time.Time, want bool) {
	o.ask.Lock()
	defer o.ask.Unlock()
	at, want, o.want = o.at, o.want, false
	return at, want
}

// learnPooled learns whether something waits in the pool.
func (d *delivery) learnPooled(ctx context.Context) error {
	return d.store.View(ctx, func(tx store.MailTx) error {
		_, states, err := tx.Count()
		d.pooled.Store(states[store.Pooled] > 0)
		return err
	})
}

// drainPool lets mail without stamps go where there is little to do.
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
			l, err := tx.Letter(a.Mail)
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
