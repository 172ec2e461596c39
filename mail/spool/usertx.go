package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
)

// A userTx is what a mail throttle knows of one user, within one transaction: the clock is run, something is done, and
// end writes what has changed, with everything that follows from it.
type userTx struct {
	queue   *queue
	tx      store.MailTx
	now     time.Time
	gate    *Gate // whose rules hold, and in whose name the user is told
	shadow  bool
	user    store.User // only its name where the store has none
	params  outbreak.Params
	mem     memory
	was     bool  // stopped, when the userTx began
	earnest bool  // an operator stops the user: also in shadow
	damage  error // of what was stored; only where nothing is written
	result
}

// A result is what is left to do when a transaction is over.
type result struct {
	throttle, user string
	ready          bool      // a recipient became ready and is not handed over yet
	stopped        bool      // the user was stopped
	resumed        bool      // … or goes on
	due            time.Time // when the memory is due
}

// openUser begins a userTx, and runs the clock until now.
func (q *queue) openUser(tx store.MailTx, now time.Time, gate *Gate, name string) (*userTx, error) {
	t := &userTx{queue: q, tx: tx, now: now, gate: gate, shadow: gate.inShadow(),
		result: result{throttle: gate.Throttle, user: name}}
	if err := t.load(name); err != nil {
		return nil, err
	}
	kept, err := tx.Remembered(gate.Throttle, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		if err := t.decode(kept.State); err != nil {
			return nil, err
		}
	}
	return t, t.tick()
}

// openLost begins a userTx at a throttle that is gone, whose clock does not run any more.
func (q *queue) openLost(tx store.MailTx, now time.Time, m *store.Memory) (*userTx, error) {
	t := &userTx{queue: q, tx: tx, now: now, gate: &Gate{Throttle: m.Throttle},
		result: result{throttle: m.Throttle, user: m.User}}
	if err := t.load(m.User); err != nil {
		return nil, err
	}
	return t, t.decode(m.State)
}

// peekUser is openUser for views. The state is as of when the clock was last run.
func (q *queue) peekUser(tx store.MailTx, now time.Time, gate *Gate, name string) (*userTx, error) {
	t := &userTx{queue: q, tx: tx, now: now, gate: gate, shadow: gate.inShadow(),
		result: result{throttle: gate.Throttle, user: name}}
	if err := t.load(name); err != nil {
		return nil, err
	}
	kept, err := tx.Remembered(gate.Throttle, name)
	if errors.Is(err, store.ErrNotFound) {
		t.suspend()
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	if t.damage = t.mem.read(kept.State); t.damage == nil && !t.shadow {
		err = t.syncShadow() // which writes nothing then
	}
	t.suspend()
	return t, err
}

func (t *userTx) load(name string) (err error) {
	if t.user, err = t.tx.User(name); errors.Is(err, store.ErrNotFound) {
		t.user, err = store.User{Name: name}, nil
	}
	if err != nil {
		return err
	}
	if t.params, err = t.gate.params(&t.user); err != nil { // the general ones hold
		t.queue.log.Error("the limits of a user cannot be read; those of everybody hold", "user", name, "error", err)
	}
	if t.flagged() {
		t.params = t.gate.Mail.Flag(t.params)
	}
	if t.user.Disabled { // nothing goes on by itself
		t.params.Resume, t.params.Exempt = 0, false
	}
	return nil
}

// flagged reports whether the reach throttle of the gate has flagged the user, where that makes a difference.
func (t *userTx) flagged() bool {
	g := t.gate
	if g.Mail == nil || g.Mail.Flagged == nil || g.Reach == nil || !t.queue.reach.Flagged(g.Name, t.user.Name) {
		return false
	}
	c, err := t.queue.reach.open(t.tx, t.now, g.Reach, t.user.Name)
	if err != nil {
		return true // unknown, and it was so
	}
	c.sketch.state.Advance(g.Reach.Rules, g.Reach.Population, t.now) // nothing of it is stored
	_, _, flagged := c.sketch.state.Flagged()
	return flagged
}

// suspend stops a disabled user as an operator does, so that only an operator can resume.
func (t *userTx) suspend() {
	if t.user.Disabled && !t.mem.stopped() {
		t.mem.state.Stop(t.now)
		t.mem.wouldStop, t.mem.suspended, t.earnest = false, true, true
	}
}

// unsuspend resumes a user who is enabled again, unless something else has stopped the user meanwhile.
func (t *userTx) unsuspend() error {
	if t.user.Disabled || !t.mem.suspended {
		return nil
	}
	t.mem.suspended = false
	t.mem.state.Resume(&t.params, t.now, false)
	return t.resumeMail(weirItself, "enabled")
}

// decode reads what was stored. What is damaged begins anew: the user may send, and what waited is held.
func (t *userTx) decode(b []byte) error {
	err := t.mem.read(b)
	if err == nil || errors.Is(err, store.ErrNewer) {
		t.was = t.mem.stopped()
		return err
	}
	t.queue.log.Error("what the throttle remembers of a user is damaged; it begins anew", "throttle", t.throttle,
		"user",
		t.user.Name, "error", err)
	t.mem = memory{}
	lost, err := t.tx.Letters(store.LetterQuery{User: t.user.Name, State: store.Delayed}, maxAct)
	if err != nil {
		return err
	}
	for _, l := range lost {
		if _, err := hold(t.tx, l.To, func(int) bool { return true }); err != nil {
			return err
		}
	}
	return t.note("damaged", 0, fmt.Sprintf("what throttle %s remembered cannot be read; %d mails are held", t.throttle,
		len(lost)))
}

// tick runs the clock, and makes ready what leaves the queue by it.
func (t *userTx) tick() error {
	if err := t.syncShadow(); err != nil {
		return err
	}
	if err := t.unsuspend(); err != nil {
		return err
	}
	t.suspend()
	_, before := t.mem.state.Stopped()
	left := t.mem.state.Tick(&t.params, t.now, nil)
	if _, after := t.mem.state.Stopped(); before && !after {
		how := "tried again"
		if t.params.Exempt {
			how = t.why()
		}
		if err := t.resumeMail(weirItself, how); err != nil {
			return err
		}
	}
	if err := t.noteExempt(left); err != nil {
		return err
	}
	return t.readyItems(left)
}

func (t *userTx) why() string {
	if t.gate.Mail == nil {
		return "no throttle any more"
	}
	return "exempt"
}

// noteExempt logs that everything left the queue at once, as nothing holds it back any more.
func (t *userTx) noteExempt(left []outbreak.Item) error {
	n := 0
	for _, it := range left {
		if it.Mail != 0 {
			n++
		}
	}
	if n == 0 || !t.params.Exempt {
		return nil
	}
	return t.note("released", 0, fmt.Sprintf("%s: %d recipient%s", t.why(), n, plural(n)))
}

// syncShadow makes sure that what was counted in shadow has no consequences later, and that nothing waits that no
// throttle holds back. Users who were stopped not in shadow stay so: what is held stays held until it is released.
func (t *userTx) syncShadow() error {
	m := &t.mem
	switch {
	case t.shadow && !m.shadow:
		m.shadow = true
		if !m.stopped() {
			return t.readyItems(m.state.Take(func(it outbreak.Item) bool { return it.Mail != 0 }))
		}
	case !t.shadow && m.shadow:
		if m.wouldStop {
			m.state.Resume(&t.params, t.now, false)
		}
		m.state.Take(func(it outbreak.Item) bool { return it.Mail == 0 })
		m.state.ForgetNulls()
		m.shadow, m.wouldStop = false, false
	}
	return nil
}

// submit puts a mail to the throttle: 0 for one that weir does not keep. In shadow the throttle keeps none.
func (t *userTx) submit(id uint64, c *counted) (outbreak.Decision, error) {
	if t.shadow {
		id = 0
	}
	d := t.mem.state.Submit(&t.params, t.now, id, c.keys, c.numbers, c.fates)
	switch {
	case !d.Refused || t.shadow:
		return d, nil
	case d.Full:
		t.queue.tell.Bounded(BoundWaiting)
		return d, ErrQueue
	}
	return d, ErrStopped
}

// takeNull takes an uncounted message without a sender, and reports whether it may go on.
func (t *userTx) takeNull() bool {
	return t.gate.Mail == nil || t.mem.state.TakeNull(&t.params, t.now)
}

// stops reports whether this userTx has stopped the user.
func (t *userTx) stops() bool {
	_, stopped := t.mem.state.Stopped()
	return stopped && (!t.was || t.resumed) && !t.shadow
}

// resumeMail is what follows when a stopped user goes on.
func (t *userTx) resumeMail(by, how string) error {
	if t.mem.wouldStop {
		t.mem.wouldStop = false
		return nil
	}
	t.resumed = true
	if err := t.markWaiting(store.Held, store.Delayed); err != nil {
		return err
	}
	return t.noteBy(by, "resumed", 0, how)
}

// readyItems makes ready what has left the queue.
func (t *userTx) readyItems(items []outbreak.Item) error {
	return t.changeItems(items, func(a *store.Addressee) bool {
		if a.State != store.Delayed && a.State != store.Held {
			return false
		}
		makeReady(a, t.now)
		t.ready = true
		return true
	})
}

// changeItems changes the addressees that items stand for.
func (t *userTx) changeItems(items []outbreak.Item, f func(*store.Addressee) bool) error {
	for _, one := range byMail(items) {
		rows, err := t.tx.Addressees(one.mail)
		if err != nil {
			return err
		}
		meant := one.among(rows)
		if _, err := changeRows(t.tx, rows,
			func(i int, a *store.Addressee) bool { return meant[i] && f(a) }); err != nil {
			return err
		}
	}
	return nil
}

func makeReady(a *store.Addressee, now time.Time) {
	a.State, a.Owner = store.Ready, ""
	if a.Due.Before(now) {
		a.Due = now
	}
	a.Since = a.Due
}

// markWaiting gives everything in the delay queue another state.
func (t *userTx) markWaiting(from, to store.State) error {
	return t.changeItems(t.mem.state.Waiting(), func(a *store.Addressee) bool {
		is := a.State == from
		if is {
			a.State = to
		}
		return is
	})
}

// end writes what has changed. A user who was stopped is told, and what waits is held.
func (t *userTx) end(n news) error {
	_, stopped := t.mem.state.Stopped()
	switch {
	case !stopped:
		t.mem.wouldStop = false
	case t.shadow && !t.was && !t.earnest:
		t.mem.wouldStop = true
	}
	if t.mem.stopped() && (!t.was || t.resumed) {
		t.stopped = true
		if err := t.markWaiting(store.Delayed, store.Held); err != nil {
			return err
		}
	}
	if err := t.inform(n); err != nil {
		return err
	}
	return t.save()
}

func (t *userTx) save() error {
	state, err := t.mem.append(nil)
	if err != nil {
		return err
	}
	if t.due = t.mem.state.Due(&t.params); !t.due.IsZero() && !t.due.After(t.now) {
		t.due = t.now.Add(soon) // or nothing else would ever be done
	}
	return t.tx.Remember(store.Memory{Throttle: t.throttle, User: t.user.Name, State: state, Due: t.due,
		Stopped: t.mem.stopped()})
}

func (t *userTx) note(what string, mail store.MailID, text string) error {
	return t.noteBy(weirItself, what, mail, text)
}

func (t *userTx) noteBy(by, what string, mail store.MailID, text string) error {
	return t.tx.Log(entry(t.now, by, what, t.user.Name, mail, text))
}

// settle does what is left to do after a transaction.
func (q *queue) settle(r result) {
	if r.stopped || r.resumed {
		q.refresh(&q.stopped, r.throttle, r.user)
	}
	if r.stopped {
		q.tell.Stopped(r.throttle)
		q.log.Warn("a user is stopped", "throttle", r.throttle, "user", r.user)
	}
	if r.resumed {
		q.tell.Resumed(r.throttle)
		q.log.Info("a user goes on", "throttle", r.throttle, "user", r.user)
	}
	q.expect(r.due)
}

// settleAll settles several results, and reports whether a recipient became ready.
func (q *queue) settleAll(results []result) (ready bool) {
	for _, r := range results {
		q.settle(r)
		ready = ready || r.ready
	}
	return ready
}

// apply runs a transaction, settles its results, and hands over what became ready.
func (q *queue) apply(ctx context.Context, now time.Time, f func(store.MailTx) ([]result, error)) error {
	var results []result
	err := q.update(ctx, func(tx store.MailTx) (err error) {
		results, err = f(tx)
		return err
	})
	if err == nil && q.settleAll(results) {
		_ = q.delivery.handDue(ctx, now) // what fails is logged, and tried again
	}
	return err
}

type mailItems struct {
	mail    store.MailID
	numbers map[int]bool
}

// byMail groups items by mail, in order. Items of mail that weir does not keep are left out.
func byMail(items []outbreak.Item) (list []mailItems) {
	at := map[uint64]int{}
	for _, it := range items {
		if it.Mail == 0 {
			continue
		}
		i, known := at[it.Mail]
		if !known {
			i = len(list)
			at[it.Mail] = i
			list = append(list, mailItems{store.MailID(it.Mail), map[int]bool{}})
		}
		list[i].numbers[it.Number] = true
	}
	return list
}

// among returns which addressees are meant: those of the numbers, and those with the same address.
func (o *mailItems) among(rows []store.Addressee) []bool {
	meant := make([]bool, len(rows))
	addresses := map[string]bool{}
	for i := range rows {
		if o.numbers[rows[i].Number] {
			meant[i] = true
			addresses[normal(rows[i].Address)] = true
		}
	}
	for i := range rows {
		meant[i] = meant[i] || addresses[normal(rows[i].Address)]
	}
	return meant
}
