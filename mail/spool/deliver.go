package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"weir/internal/shown"
	"weir/mail/nexthop"
	"weir/store"
)

// lease is how long a message may be Sending. It is longer than any wait for the answer to a final dot.
const lease = 30 * time.Minute

const maxFinishes = 512

// Errors of Committed: the attempt ends before the final dot, and nothing was sent.
var (
	errGone    = errors.New("spool: somebody has taken the mail away")
	errHalting = errors.New("spool: stopping")
)

// A job is a message and the recipients that it is delivered to, from the hand-over until the end is stored.
type job struct {
	gate    *gateway
	message store.Message
	to      []store.Addressee
	text    []byte        // nil: it is in the store
	tells   *bounceTarget // nil: not needed yet

	conf    *Gate // of the delivery
	results []nexthop.Result

	mu       sync.Mutex
	claiming bool // being stored as Sending: it cannot be broken off
	claimed  bool // stored as Sending: it cannot be broken off any more
	broken   bool // broken off before that
	gone     bool // not all addressees were there to be claimed
	over     bool // the carrier is done: nothing above changes any more
}

// breakOff ends a delivery before the final dot, and reports whether it did.
func (j *job) breakOff() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.claiming && !j.claimed && !j.over {
		j.broken = true // never after over, since finish reads it without the lock
	}
	return j.broken
}

// end notes that the carrier is done, and reports whether the message was claimed.
func (j *job) end() (claimed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
	return j.claimed
}

// deliver hands a message on. The end is stored while the worker has the next one.
func (d *delivery) deliver(j *job) {
	j.conf = j.gate.conf.Load()
	ctx, cancel := context.WithCancel(d.base)
	watched := context.AfterFunc(d.halt, func() {
		if j.breakOff() {
			cancel()
		}
	})
	j.results = d.carry(ctx, j)
	watched()
	cancel()
	j.gate.going.Add(-1)
	d.freeText(j)
	d.finishes <- struct{}{}
	d.running.Go(func() {
		defer func() { <-d.finishes }()
		if d.finish(j) != nil {
			d.expect(d.clock.Now().Add(soon))
		}
	})
}

// carry gives a message to the carrier. A panic of the carrier affects no other message.
func (d *delivery) carry(ctx context.Context, j *job) (results []nexthop.Result) {
	defer func() {
		if what := recover(); what != nil {
			d.log.Error("a delivery failed because of a bug in weir", "mail", j.message.ID, "panic", what, "stack",
				string(debug.Stack()))
			results = nil
		}
		claimed := j.end()
		if len(results) == len(j.to) {
			return
		}
		lost := nexthop.Result{Outcome: nexthop.Later, Status: "4.3.0", Text: "the delivery failed because of a bug"}
		if claimed {
			lost.Outcome = nexthop.Ambiguous
		}
		results = slices.Repeat([]nexthop.Result{lost}, len(j.to))
	}()
	l := &j.message
	order := &nexthop.Job{ID: l.ID.String(), Sender: l.Sender, Size: l.Size, UTF8: l.UTF8, EightBit: l.EightBit,
		Return: l.Return, Envelope: l.Envelope, Recipients: make([]nexthop.Recipient, len(j.to)),
		Open: func() (io.ReadCloser, error) { return d.open(ctx, j) }, Committed: func() error { return d.claim(j) },
	}
	for i := range j.to {
		order.Recipients[i] = nexthop.Recipient{Address: j.to[i].Address, Notify: j.to[i].Notify,
			Original: j.to[i].Original}
	}
	return j.conf.Carrier.Deliver(ctx, order)
}

func (d *delivery) open(ctx context.Context, j *job) (io.ReadCloser, error) {
	if j.text != nil {
		return io.NopCloser(bytes.NewReader(j.text)), nil
	}
	return d.store.Open(ctx, j.message.ID)
}

// claim stores that a message is being sent. From now on it is unknown what the next server has, until it answers. If
// weir ends now, the next run sees that. A second call, for a further transaction of the same job, finds it claimed.
func (d *delivery) claim(j *job) error {
	j.mu.Lock()
	claimed, broken := j.claimed, j.broken
	j.claiming = !claimed && !broken
	j.mu.Unlock()
	switch {
	case broken:
		return errHalting
	case claimed:
		return nil
	}
	now := d.clock.Now()
	rows := make([]store.Addressee, len(j.to))
	err := d.update(d.base, func(tx store.MailTx) error {
		there, err := tx.Addressees(j.message.ID)
		if err != nil {
			return err
		}
		for i := range j.to {
			k, found := find(there, j.to[i].Number)
			if !found || there[k].State != store.Ready || there[k].Owner != d.opts.Owner {
				return errGone
			}
			rows[i] = there[k]
			rows[i].State, rows[i].Due = store.Sending, now.Add(lease)
			rows[i].Attempt++
		}
		return tx.PutAddressees(rows...)
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.claiming = false
	if err != nil {
		j.gone = errors.Is(err, errGone)
		j.broken = d.halt.Err() != nil // breakOff could not say so meanwhile
		return err
	}
	j.to, j.claimed = rows, true
	return nil
}

// find finds an addressee by number, in rows that are in that order.
func find(rows []store.Addressee, number int) (int, bool) {
	return slices.BinarySearchFunc(rows, number, func(a store.Addressee, n int) int { return a.Number - n })
}

// parked are deliveries whose end could not be stored. They keep their slots, and are as bounded as the queues.
type parked struct {
	mu   sync.Mutex
	list []*job
}

// finish stores the end of a delivery, and hands over what follows from it. After an error RunDue tries again. Until
// then the message is in flight, and is not sent again.
func (d *delivery) finish(j *job) error {
	now := d.clock.Now()
	end := conclude(j, now)
	own, err := d.bounces(j, end, now)
	if err == nil {
		err = d.update(context.Background(), func(tx store.MailTx) error { return d.storeEnd(tx, j, end, own) })
	}
	discard(own)
	if err != nil {
		d.complain(&d.failing.ends, "how a delivery ended cannot be stored yet", "mail", j.message.ID, "error", err)
		d.parked.mu.Lock()
		d.parked.list = append(d.parked.list, j)
		d.parked.mu.Unlock()
		d.under.done()
		return err
	}
	if !end.void {
		end.told = len(own) > 0
		d.report(j, end, now)
	}
	d.under.add() // until what follows is handed over
	d.finished(j)
	if len(own) > 0 || end.again {
		_ = d.handDue(context.Background(), now) // an error is logged, and it is tried again
	}
	d.under.done()
	d.expect(end.next)
	d.wakeIfFree(j.gate)
	return nil
}

// unpark tries again to store the ends of deliveries. At the first error the others, which most likely would fail too,
// are left for the next time, in front of the one that failed.
func (d *delivery) unpark() error {
	d.parked.mu.Lock()
	list := d.parked.list
	d.parked.list = nil
	d.parked.mu.Unlock()
	for i, j := range list {
		d.under.add()
		if err := d.finish(j); err != nil {
			d.parked.mu.Lock()
			defer d.parked.mu.Unlock()
			d.parked.list = append(list[i+1:], d.parked.list...)
			return fmt.Errorf("how deliveries ended: %w", err)
		}
	}
	return nil
}

// storeEnd stores the end of a delivery, with the bounces. Recipients that were removed before the final dot stay so.
func (d *delivery) storeEnd(tx store.MailTx, j *job, end *ending, own []*ownMessage) error {
	end.void = false
	if len(end.put) > 0 || !j.claimed {
		there, err := tx.Addressees(j.message.ID)
		if err != nil {
			return err
		}
		ours := func(number int) bool {
			k, found := find(there, number)
			return found && there[k].Owner == d.opts.Owner && (there[k].State == store.Sending) == j.claimed
		}
		if end.void = !slices.ContainsFunc(j.to, func(a store.Addressee) bool { return ours(a.Number) }); end.void {
			return nil
		}
		if _, err := changeRows(tx, end.put,
			func(_ int, a *store.Addressee) bool { return ours(a.Number) }); err != nil {
			return err
		}
	}
	if err := end.store(tx, own); err != nil || len(end.remove) == 0 {
		return err
	}
	return tx.RemoveAddressees(j.message.ID, end.remove...)
}

func (d *delivery) report(j *job, end *ending, now time.Time) {
	gate := j.message.Gate
	if !j.gone && !j.broken { // else nothing was tried
		d.note(j.ends(now)...)
	}
	if end.done > 0 {
		d.tell.Delivered(gate, end.done, max(0, now.Sub(j.to[0].Since)))
	}
	if end.later > 0 {
		d.tell.Deferred(gate, end.later)
	}
	if end.refused > 0 {
		d.tell.Failed(gate, end.refused)
		switch {
		case j.message.Own:
			d.log.Warn("a notice or a bounce could not be delivered", "mail", j.message.ID, "to", j.to[0].Address)
		case j.message.Sender == "":
			d.log.Warn("a message without a sender could not be delivered, and nobody is told", "mail", j.message.ID,
				"user", j.message.User, "recipients", end.refused)
		}
	}
	if len(end.failed) > 0 && end.told {
		d.tell.Bounced(gate)
	}
	if end.kept > 0 {
		d.log.Warn("a message is held: the next hop does not support SMTPUTF8, and nobody can be told", "mail", j.message.ID,
			"user", j.message.User, "recipients", end.kept)
	}
	if end.ambiguous > 0 {
		d.tell.Ambiguous(gate, end.ambiguous)
		d.log.Warn("nobody knows whether a mail was delivered", "mail", j.message.ID, "recipients", end.ambiguous)
	}
}

func status(r *nexthop.Result) string {
	text := r.Status + " " + r.Text
	if r.Code > 0 {
		text = fmt.Sprintf("%d %s", r.Code, text)
	}
	return shown.Plain(text, store.MaxStatus)
}
