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

	"weir/mail/nexthop"
	"weir/store"
)

// lease is how long a mail may be Sending. It is longer than anybody waits for the answer to a final dot.
const lease = 30 * time.Minute

const maxFinishes = 512

// What Committed returns: the attempt ends before the final dot, and nothing was sent.
var (
	errGone    = errors.New("spool: somebody has taken the mail away")
	errHalting = errors.New("spool: stopping")
)

// A job is a mail for the recipients that go together, from when it is handed over until how it ended is stored.
type job struct {
	gate   *gateway
	letter store.Letter
	to     []store.Addressee
	text   []byte        // nil: the store has it
	tells  *bounceTarget // who is told how it ended; nil: not needed yet

	mu       sync.Mutex
	claiming bool // being stored as Sending: it cannot be broken off
	claimed  bool // stored as Sending: it cannot be broken off any more
	broken   bool // broken off before that
	gone     bool // not all addressees were there to be claimed
	over     bool // the carrier is done with it: nothing above changes any more
}

// breakOff ends a mail that has not come to its final dot, and reports whether it did.
func (j *job) breakOff() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.claiming && !j.claimed && !j.over {
		j.broken = true // and never later: how it ended is read without the lock
	}
	return j.broken
}

// end notes that the carrier is done, and reports whether the mail was claimed.
func (j *job) end() (claimed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
	return j.claimed
}

// deliver hands a mail on. How it ended is stored beside the next one.
func (d *delivery) deliver(j *job) {
	conf := j.gate.conf.Load()
	ctx, cancel := context.WithCancel(d.base)
	watched := context.AfterFunc(d.halt, func() {
		if j.breakOff() {
			cancel()
		}
	})
	results := d.carry(ctx, conf.Carrier, j)
	watched()
	cancel()
	j.gate.going.Add(-1)
	d.freeText(j)
	d.finishes <- struct{}{}
	d.running.Go(func() {
		defer func() { <-d.finishes }()
		if d.finish(conf, j, results) != nil {
			d.expect(d.clock.Now().Add(soon))
		}
	})
}

// carry gives a mail to the carrier. A carrier that panics takes no other mail with it.
func (d *delivery) carry(ctx context.Context, c Carrier, j *job) (results []nexthop.Result) {
	defer func() {
		if what := recover(); what != nil {
			d.log.Error("a delivery failed by a mistake in weir", "mail", j.letter.ID, "panic", what, "stack",
				string(debug.Stack()))
			results = nil
		}
		claimed := j.end()
		if len(results) == len(j.to) {
			return
		}
		lost := nexthop.Result{Outcome: nexthop.Later, Status: "4.3.0", Text: "the delivery failed by a mistake"}
		if claimed {
			lost.Outcome = nexthop.Ambiguous
		}
		results = slices.Repeat([]nexthop.Result{lost}, len(j.to))
	}()
	l := &j.letter
	order := &nexthop.Job{ID: l.ID.String(), Sender: l.Sender, Size: l.Size, UTF8: l.UTF8, EightBit: l.EightBit,
		Return: l.Return, Envelope: l.Envelope, Recipients: make([]nexthop.Recipient, len(j.to)),
		Open: func() (io.ReadCloser, error) { return d.open(ctx, j) }, Committed: func() error { return d.claim(j) },
	}
	for i := range j.to {
		order.Recipients[i] = nexthop.Recipient{Address: j.to[i].Address, Notify: j.to[i].Notify,
			Original: j.to[i].Original}
	}
	return c.Deliver(ctx, order)
}

func (d *delivery) open(ctx context.Context, j *job) (io.ReadCloser, error) {
	if j.text != nil {
		return io.NopCloser(bytes.NewReader(j.text)), nil
	}
	return d.store.Open(ctx, j.letter.ID)
}

// claim stores that a mail is being sent. From now on it is unknown what the next server has, until it answers. Should
// weir end now, the next run sees it. A second call, for a further transaction with the same mail, finds it claimed.
func (d *delivery) claim(j *job) error {
	j.mu.Lock()
	claimed, broken := j.claimed, j.broken
	j.claiming = !claimed && !broken
	j.mu.Unlock()
	if claimed || broken {
		return errIf(broken, errHalting)
	}
	now := d.clock.Now()
	rows := make([]store.Addressee, len(j.to))
	err := d.update(d.base, func(tx store.MailTx) error {
		there, err := tx.Addressees(j.letter.ID)
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

func errIf(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// find finds an addressee by number, in rows that are in that order.
func find(rows []store.Addressee, number int) (int, bool) {
	return slices.BinarySearchFunc(rows, number, func(a store.Addressee, n int) int { return a.Number - n })
}

// parked are deliveries whose end could not be stored. They keep their slots, and are as bounded as the queues.
type parked struct {
	mu   sync.Mutex
	list []ended
}

type ended struct {
	conf    *Gate
	job     *job
	results []nexthop.Result
}

// finish stores how a delivery ended, and hands over what follows from it. What cannot be stored now is tried again by
// RunDue; until then the mail is in flight, and is not sent again.
func (d *delivery) finish(conf *Gate, j *job, results []nexthop.Result) error {
	now := d.clock.Now()
	end := conclude(conf, j, results, now)
	own, err := d.bounces(conf, j, end, now)
	if err == nil {
		err = d.update(context.Background(), func(tx store.MailTx) error { return d.storeEnd(tx, j, end, own) })
	}
	for _, o := range own {
		o.staged.Discard() // nothing, where it was stored
	}
	if err != nil {
		d.complain(&d.failing.ends, "how a delivery ended cannot be stored yet", "mail", j.letter.ID, "error", err)
		d.parked.mu.Lock()
		d.parked.list = append(d.parked.list, ended{conf, j, results})
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
		_ = d.handDue(context.Background(), now) // what fails is logged, and tried again
	}
	d.under.done()
	d.expect(end.next)
	d.wakeIfFree(j.gate)
	return nil
}

// unpark tries again to store how deliveries ended. The first that fails again goes behind the others, which are left
// for the next time, as most likely they would fail too.
func (d *delivery) unpark() error {
	d.parked.mu.Lock()
	list := d.parked.list
	d.parked.list = nil
	d.parked.mu.Unlock()
	for i, e := range list {
		d.under.add()
		if err := d.finish(e.conf, e.job, e.results); err != nil {
			d.parked.mu.Lock()
			defer d.parked.mu.Unlock()
			d.parked.list = append(list[i+1:], d.parked.list...)
			return fmt.Errorf("how deliveries ended: %w", err)
		}
	}
	return nil
}

// storeEnd stores how a delivery ended, with the bounces. What was removed before the final dot is left alone.
func (d *delivery) storeEnd(tx store.MailTx, j *job, end *ending, own []*ownLetter) error {
	end.void = false
	if len(end.put) > 0 || !j.claimed {
		there, err := tx.Addressees(j.letter.ID)
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
	for _, o := range own {
		if err := tx.PutLetter(o.letter, o.text, []store.Addressee{o.to}); err != nil {
			return err
		}
	}
	if err := logAll(tx, end.entries); err != nil || len(end.remove) == 0 {
		return err
	}
	return tx.RemoveAddressees(j.letter.ID, end.remove...)
}

func (d *delivery) report(j *job, end *ending, now time.Time) {
	gate := j.letter.Gate
	if end.done > 0 {
		d.tell.Delivered(gate, end.done, max(0, now.Sub(j.to[0].Since)))
	}
	if end.later > 0 {
		d.tell.Deferred(gate, end.later)
	}
	if end.refused > 0 {
		d.tell.Failed(gate, end.refused)
		switch {
		case j.letter.Own:
			d.log.Warn("a notice or a bounce could not be delivered", "mail", j.letter.ID, "to", j.to[0].Address)
		case j.letter.Sender == "":
			d.log.Warn("a mail without a sender could not be delivered, and nobody is told", "mail", j.letter.ID,
				"user", j.letter.User, "recipients", end.refused)
		}
	}
	if len(end.failed) > 0 && end.told {
		d.tell.Bounced(gate)
	}
	if end.kept > 0 {
		d.log.Warn("a mail is held: the next hop knows no SMTPUTF8, and nobody can be told", "mail", j.letter.ID,
			"user", j.letter.User, "recipients", end.kept)
	}
	if end.ambiguous > 0 {
		d.tell.Ambiguous(gate, end.ambiguous)
		d.log.Warn("nobody knows whether a mail was delivered", "mail", j.letter.ID, "recipients", end.ambiguous)
	}
}

func status(r *nexthop.Result) string {
	text := r.Status + " " + r.Text
	if r.Code > 0 {
		text = fmt.Sprintf("%d %s", r.Code, text)
	}
	return cut(toText(text), store.MaxStatus)
}
