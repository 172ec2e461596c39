package spool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/internal/shown"
	"weir/store"
	"weir/throttle/outbreak"
	"weir/throttle/reach"
)

// Accept takes a message over. When it returns nil the message is safe, and its sender may be told so. Otherwise
// nothing of it is kept.
//
// A recipient is not counted if it is free (see Free), or paid for by a stamp, which is spent in the same transaction.
// A message of the null sender to one recipient is not counted with the others, and has a limit of its own (ErrNulls).
// Addresses that differ only in case count as one. A message is to several if several of its recipients are counted.
func (q *queue) Accept(ctx context.Context, now time.Time, e *Envelope, text store.Staged) (r Receipt, err error) {
	defer func() {
		if err != nil {
			text.Discard()
		}
	}()
	way := q.gates.Load().byName[e.Gate]
	switch {
	case way == nil:
		return Receipt{}, fmt.Errorf("%w: %q", ErrUnknown, e.Gate)
	case len(e.To) > MaxRecipients:
		return Receipt{}, q.tooMany(len(e.To), MaxRecipients)
	case q.halt.Err() != nil:
		return Receipt{}, ErrClosing
	}
	in := incoming{queue: q, now: now, gate: way.conf.Load(), e: e}
	if text.Size() > store.MaxInline { // it is in a file, and the envelope goes behind it
		m := e.message(now)
		text.Note(&m, e.addressees())
	}
	sealed, err := text.Seal()
	if err != nil {
		return Receipt{}, err
	}
	in.text, in.handed = sealed, way.reserve()
	if err := q.update(ctx, in.store); err != nil {
		if in.handed {
			way.unreserve()
		}
		return Receipt{}, err
	}
	q.reach.settleReach(in.reachTx)
	if in.refusal == nil {
		q.delivery.note(in.accepted())
	}
	ready := in.forWorkers()
	switch {
	case in.handed && len(ready) > 0:
		q.delivery.hand(&job{gate: way, message: in.message, to: ready, text: sealed.Inline})
	case in.handed:
		way.unreserve()
	case in.receipt.Passed > 0:
		q.delivery.overflow(way)
	}
	if in.receipt.Pooled > 0 {
		q.delivery.pooled.Store(true)
	}
	q.settle(in.result)
	if in.ready || in.told {
		_ = q.delivery.handDue(ctx, now) // an error is logged, and it is tried again
	}
	if in.refusal != nil {
		if errors.Is(in.refusal, ErrWithheld) {
			q.tell.Bounded(BoundWithheld)
		}
		return Receipt{}, in.refusal
	}
	q.expect(in.soonest)
	q.tell.Accepted(e.Gate, e.User, in.receipt)
	return in.receipt, nil
}

type incoming struct {
	queue  *queue
	now    time.Time
	gate   *Gate
	e      *Envelope
	text   store.Text
	handed bool // a slot with the workers is reserved

	attempt
}

// An attempt is what one run of the transaction finds out.
type attempt struct {
	message store.Message
	to      []store.Addressee
	paid    []bool // by recipient; nil: none is
	receipt Receipt
	delayed bool // by the throttle
	review  bool
	late    bool      // the user was stopped before, and the message is held instead of refused
	soonest time.Time // when a recipient gets ready that is not handed over
	result

	reachTx *reachTx // of the reach throttle; nil: it counts nobody
	refusal error    // by the reach throttle
	putOff  error    // the same, unless the message is held anyway
	told    bool     // there is a notice to deliver
}

// store is the transaction. It may be run again.
func (in *incoming) store(tx store.MailTx) error {
	in.attempt = attempt{message: in.e.message(in.now)}
	in.message.Size, in.message.Filed = in.text.Size, in.text.File
	if err := in.reach(tx); err != nil || in.refusal != nil {
		return err
	}
	if err := in.spend(tx); err != nil {
		return err
	}
	fates, t, err := in.judge(tx)
	if err != nil {
		return err
	}
	if in.putOff != nil && !in.late { // the user is not stopped any more
		return in.putOff
	}
	in.to = in.e.addressees()
	for i := range in.to {
		if in.reachTx.fate(i) == reach.Hold {
			in.to[i].State = store.Withheld
			in.receipt.Withheld++
			continue
		}
		in.put(i, fates[i], t)
	}
	if err := tx.PutMessage(in.message, in.text, in.to); err != nil {
		return err
	}
	if err := in.endReach(t != nil && t.stops()); err != nil {
		return err
	}
	if t == nil {
		return nil
	}
	if err := t.end(news{delayed: in.delayed, review: in.review}); err != nil {
		return err
	}
	in.receipt.Stopped = t.stopped
	in.result = t.result
	return nil
}

// put gives a recipient the state for its fate (see doc.go).
func (in *incoming) put(i int, p outbreak.Fate, t *userTx) {
	a, to, now := &in.to[i], &in.e.To[i], in.now
	a.Due = now
	if to.After.After(now) {
		a.Due = to.After
	}
	switch {
	case p == outbreak.Hold:
		a.State, in.review = store.Held, true
		in.receipt.Held++
	case p == outbreak.Delay && (in.late || t.stops()):
		a.State = store.Held
		in.receipt.Held++
	case p == outbreak.Delay:
		a.State, in.delayed = store.Delayed, true
		in.receipt.Delayed++
	case to.Pooled && !(in.paid != nil && in.paid[i]):
		a.State = store.Pooled
		in.receipt.Pooled++
	case a.Due.After(now):
		a.State, a.Since = store.Ready, a.Due
		in.receipt.Delayed++
		in.soonest = earlier(in.soonest, a.Due)
	default:
		a.State, a.Since = store.Ready, now
		in.receipt.Passed++
		if in.handed {
			a.Owner, a.Due = in.queue.opts.Owner, now.Add(handOver)
		}
	}
}

// accepted is the first step of a message.
func (in *incoming) accepted() MailStep {
	s := decided(in.now, in.e.ID, in.e.User, stepAccepted, len(in.to))
	s.ID, s.Queue = in.e.MessageID, in.e.Origin
	if len(in.to) == 1 {
		s.Address = in.to[0].Address
	}
	return s
}

// forWorkers returns the addressees that go on at once.
func (in *incoming) forWorkers() []store.Addressee {
	return slices.DeleteFunc(in.to, func(a store.Addressee) bool { return a.State != store.Ready || a.Owner == "" })
}

// judge asks the mail throttle about each recipient. If nothing is counted, it is not asked, and there is no userTx.
func (in *incoming) judge(tx store.MailTx) ([]outbreak.Fate, *userTx, error) {
	fates := make([]outbreak.Fate, len(in.e.To)) // Pass
	g := in.gate
	null := g.passesNull(in.e.User, in.e.Sender, len(in.e.To))
	if g.Mail == nil && !in.queue.Stopped(g.Name, in.e.User) { // stopped users send no notifications either
		return fates, nil, nil
	}
	t, err := in.queue.openUser(tx, in.now, g, in.e.User)
	if err != nil {
		return nil, nil, err
	}
	if most := t.params.Recipients; most > 0 && len(in.e.To) > most {
		return nil, nil, in.queue.tooMany(len(in.e.To), most)
	}
	if in.e.Diverted && t.mem.stopped() && !t.shadow {
		return in.hold(fates, t)
	}
	c := in.queue.count(g, &t.user, in.e.To, in.paid, in.reachTx)
	if t.was && !t.resumed && !t.shadow && c.due {
		return nil, nil, ErrStopped
	}
	if null {
		if c.due && !t.takeNull() {
			if !t.shadow {
				in.queue.tell.Bounded(BoundNulls)
				return nil, nil, ErrNulls
			}
			in.receipt.Shadow, in.receipt.WouldRefuse = true, 1
		}
		return fates, t, nil
	}
	d, err := t.submit(uint64(in.e.ID), c)
	if err != nil {
		return nil, nil, err
	}
	if t.shadow {
		in.receipt.Shadow, in.receipt.WouldStop = true, d.Stopped
		for _, of := range c.of {
			switch {
			case of < 0:
			case d.Refused:
				in.receipt.WouldRefuse++
			case c.fates[of] != outbreak.Pass:
				in.receipt.WouldWait++
			}
		}
		return fates, t, nil
	}
	for i, of := range c.of {
		if of >= 0 {
			fates[i] = c.fates[of]
		}
	}
	return fates, t, nil
}

// hold holds a message of a stopped user that another server has taken already. Only free recipients get it at once.
func (in *incoming) hold(fates []outbreak.Fate, t *userTx) ([]outbreak.Fate, *userTx, error) {
	c := in.queue.count(in.gate, &t.user, in.e.To, nil, in.reachTx)
	if !t.mem.state.Hold(in.now, uint64(in.e.ID), c.keys, c.numbers) {
		in.queue.tell.Bounded(BoundWaiting)
		return nil, nil, ErrQueue
	}
	in.late = true
	for i, of := range c.of {
		if of >= 0 {
			fates[i] = outbreak.Delay
		}
	}
	return fates, t, nil
}

// counted are the recipients of a message that a mail throttle counts.
type counted struct {
	keyList
	numbers []int // of the first with that address
	of      []int // by recipient: the index of the key; -1: not counted
	fates   []outbreak.Fate
	due     bool // a recipient is not free: a stopped user does not reach it
}

// count returns the recipients that are counted. Those that are paid for or withheld by a reach throttle are not.
func (q *queue) count(g *Gate, user *store.User, to []To, paid []bool, reached *reachTx) *counted {
	c := &counted{of: make([]int, len(to))}
	for i := range to {
		c.of[i] = -1
		address := normal(to[i].Address)
		if g.free(user, to[i].Address, address) {
			continue
		}
		c.due = true
		if paid != nil && paid[i] || reached.fate(i) != reach.Pass {
			continue
		}
		if c.of[i] = c.add(q.keys, address); len(c.numbers) < len(c.keys) {
			c.numbers = append(c.numbers, i)
		}
	}
	c.fates = make([]outbreak.Fate, len(c.keys))
	return c
}

func (q *queue) tooMany(n, most int) error {
	q.tell.Bounded(BoundRecipients)
	return fmt.Errorf("%w: %d, at most %d", ErrRecipients, n, most)
}

// A Refusal is an error about what somebody sends, in words for them.
type Refusal struct {
	Text  string
	Later bool // it is worth trying again
}

func (r *Refusal) Error() string { return "spool: " + r.Text }

// Errors of Accept and Decide. Others come from the store.
var (
	ErrStopped = &Refusal{"sending is stopped for this account: see the mail about it, or ask support", false}
	ErrNulls   = &Refusal{"you send more messages without a sender than you may for now, try again later", true}

	ErrRecipients = errors.New("spool: too many recipients")
	ErrUnknown    = errors.New("spool: no such gate")
	ErrClosing    = errors.New("spool: closing")
	ErrUnpaid     = errors.New("spool: a stamp is required, and was spent before")
)

// ErrQueue is returned by Accept if the delay queue of the user is full. It is worth trying again later.
var ErrQueue = errors.New("spool: as many recipients of the user wait as may")

// An Envelope is a message that a gate has received.
type Envelope struct {
	ID      store.MailID // from NewID
	Gate    string
	User    string // the authenticated name, or else the address of the client
	Sender  string
	Subject string
	Source  netip.Addr

	MessageID string // of the header, without angle brackets
	Origin    string // the id by which the server before knows the message, if it says so
	UTF8      bool
	EightBit  bool
	Return    string
	Envelope  string
	To        []To

	// Another server has taken the message, and would keep it if it were refused: that of a stopped user is held.
	Diverted bool
}

// To is one recipient of an envelope.
type To struct {
	Address  string
	Notify   string
	Original string
	Stamp    Stamp     // pays for this recipient; the zero value: none
	Pooled   bool      // the gate is over its load: waits in the general pool unless paid for
	Required bool      // the message is refused unless this recipient is paid for
	After    time.Time // when another throttle lets it go on; zero: now
}

// A Stamp is one that the gate has found valid. Accept spends it with the message. If another message has spent it in
// the meantime, the recipient is not paid for. Addresses that differ only in case share a stamp.
type Stamp = store.Stamp

// A Receipt says what became of a message.
type Receipt struct {
	Paid    int // recipients whose stamps were spent
	Passed  int // recipients that go on at once
	Delayed int
	Held    int
	Pooled  int
	Stopped bool // the user has just been stopped by it

	Withheld int // new to a flagged user: they wait for a review

	Shadow      bool // the throttle only counts
	WouldWait   int  // recipients that would wait
	WouldRefuse int  // recipients that would be refused
	WouldStop   bool // the user would be stopped
}

func (e *Envelope) message(now time.Time) store.Message {
	return store.Message{ID: e.ID, Gate: e.Gate, User: e.User, Sender: e.Sender,
		Subject: shown.Cut(e.Subject, store.MaxSubject), Source: e.Source,
		Received: now, UTF8: e.UTF8, EightBit: e.EightBit, Return: e.Return, Envelope: e.Envelope}
}

func (e *Envelope) addressees() []store.Addressee {
	all := make([]store.Addressee, len(e.To))
	for i, to := range e.To {
		all[i] = store.Addressee{Mail: e.ID, Number: i, Address: to.Address, Notify: to.Notify, Original: to.Original}
	}
	return all
}
