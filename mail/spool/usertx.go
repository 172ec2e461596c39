package spool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
)

// A userTx is what a mail throttle knows of one user, within one transaction. openUser runs the clock, then something
// is done, and end writes what has changed, with everything that follows from it.
type userTx struct {
	queue   *queue
	tx      store.MailTx
	now     time.Time
	gate    *Gate // whose rules hold, and in whose name the user is told
	shadow  bool
	user    store.User // only its name if the store has none
	params  outbreak.Params
	mem     memory
	known   bool  // the throttle remembers the user; only in views
	was     bool  // stopped, when the userTx began
	earnest bool  // an operator stops the user: also in shadow
	damage  error // of what was stored; only in views
	result
}

// A result is what is left to do when a transaction is over.
type result struct {
	throttle, user string
	ready          bool       // a recipient became ready and is not handed over yet
	stopped        bool       // the user was stopped
	resumed        bool       // the user goes on
	due            time.Time  // when the clock of the user has something to do
	steps          []MailStep // of messages
	untold         bool       // the user was stopped, and has no contact
}

// openUser begins a userTx, and runs the clock until now.
func (q *queue) openUser(tx store.MailTx, now time.Time, gate *Gate, name string) (*userTx, error) {
	t, err := q.newUserTx(tx, now, gate, name)
	if err != nil {
		return nil, err
	}
	kept, err := tx.Remembered(gate.Throttle, name)
	if err == nil {
		err = t.decode(kept.State)
	} else if isNotFound(err) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return t, t.tick()
}

// openLost begins a userTx at a throttle that is gone, whose clock does not run any more.
func (q *queue) openLost(tx store.MailTx, now time.Time, m *store.Memory) (*userTx, error) {
	t, err := q.newUserTx(tx, now, &Gate{Throttle: m.Throttle}, m.User)
	if err != nil {
		return nil, err
	}
	return t, t.decode(m.State)
}

// peekUser is openUser for views. The clock is not run.
func (q *queue) peekUser(tx store.MailTx, now time.Time, gate *Gate, name string) (*userTx, error) {
	t, err := q.newUserTx(tx, now, gate, name)
	if err != nil {
		return nil, err
	}
	kept, err := tx.Remembered(gate.Throttle, name)
	switch {
	case isNotFound(err):
		err = nil
	case err != nil:
		return nil, err
	default:
		t.known = true
		if t.damage = t.mem.read(kept.State); t.damage == nil && !t.shadow {
			err = t.syncShadow() // writes nothing out of shadow
		}
	}
	t.suspend()
	return t, err
}

// newUserTx reads the user, and the limits that hold.
func (q *queue) newUserTx(tx store.MailTx, now time.Time, gate *Gate, name string) (*userTx, error) {
	user, err := q.userOf(tx, name)
	if err != nil {
		return nil, err
	}
	t := &userTx{queue: q, tx: tx, now: now, gate: gate, shadow: gate.inShadow(), user: user,
		result: result{throttle: gate.Throttle, user: name}}
	if t.params, err = gate.params(&t.user); err != nil { // they are the general ones
		q.log.Error("the limits of a user cannot be read; the general limits apply", "user", name, "error", err)
	}
	if t.flagged() {
		t.params = gate.Mail.Flag(t.params)
	}
	if t.user.Disabled { // nothing goes on by itself
		t.params.Resume, t.params.Exempt = 0, false
	}
	return t, nil
}

// flagged reports whether the reach throttle of the gate has flagged the user, if that makes a difference.
func (t *userTx) flagged() bool {
	g := t.gate
	if g.Mail == nil || g.Mail.Flagged == nil || g.Reach == nil || !t.queue.reach.Flagged(g.Name, t.user.Name) {
		return false
	}
	flagged, err := t.queue.reach.flaggedNow(t.tx, t.now, g.Reach, t.user.Name)
	return flagged || err != nil // in doubt it still is
}

// suspend stops a disabled user as an operator does, so that only an operator can resume the user.
func (t *userTx) suspend() {
	if t.user.Disabled && !t.mem.stopped() {
		t.mem.state.Stop(t.now)
		t.mem.wouldStop, t.mem.suspended, t.earnest = false, true, true
	}
}

// unsuspend resumes a user who is enabled again, unless something else has stopped them in the meantime.
func (t *userTx) unsuspend() error {
	if t.user.Disabled || !t.mem.suspended {
		return nil
	}
	t.mem.suspended = false
	t.mem.state.Resume(&t.params, t.now, false)
	return t.resumeMail(weirItself, "enabled")
}

// decode reads what was stored. If it is damaged, the user begins anew: they may send, and messages that waited are
// held.
func (t *userTx) decode(b []byte) error {
	err := t.mem.read(b)
	if err == nil || errors.Is(err, store.ErrNewer) {
		t.was = t.mem.stopped()
		return err
	}
	t.queue.log.Error("the throttle's state of a user is damaged and starts again", "throttle", t.throttle,
		"user", t.user.Name, "error", err)
	t.mem = memory{}
	lost, err := t.tx.Messages(store.MessageQuery{User: t.user.Name, State: store.Delayed}, maxAct)
	if err != nil {
		return err
	}
	for _, l := range lost {
		if _, err := hold(t.tx, l.To, nil); err != nil {
			return err
		}
	}
	return t.note(weirItself, "damaged", fmt.Sprintf("the state of throttle %s cannot be read; %d messages are held",
		t.throttle, len(lost)))
}

// tick runs the clock, and makes ready the recipients that leave the queue.
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
	return t.note(weirItself, "released", t.why()+": "+recipientsText(n))
}

// syncShadow makes sure that what was counted in shadow has no consequences later, and that nothing waits for a
// throttle in shadow. Users who were stopped before stay stopped, and their held messages stay held.
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

// submit puts a message to the throttle. id is 0 for one that weir does not keep, as is every one in shadow.
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

// resumeMail is what follows when a stopped user goes on. What is held stays held until somebody decides about it.
func (t *userTx) resumeMail(by, how string) error {
	if t.mem.wouldStop {
		t.mem.wouldStop = false
		return nil
	}
	t.resumed = true
	return t.note(by, "resumed", how)
}

// readyItems makes ready what has left the queue.
func (t *userTx) readyItems(items []outbreak.Item) error {
	return t.changeItems(items, "", func(a *store.Addressee) bool {
		if a.State != store.Delayed {
			return false
		}
		makeReady(a, t.now)
		t.ready = true
		return true
	})
}

// changeItems changes the addressees that items stand for, and notes the step that this is for each message, if any.
func (t *userTx) changeItems(items []outbreak.Item, step string, f func(*store.Addressee) bool) error {
	for _, one := range byMail(items) {
		rows, err := t.tx.Addressees(one.mail)
		if err != nil {
			return err
		}
		meant := one.among(rows)
		n, err := changeRows(t.tx, rows, func(i int, a *store.Addressee) bool { return meant[i] && f(a) })
		if err != nil {
			return err
		}
		if step != "" && n > 0 {
			t.steps = append(t.steps, decided(t.now, one.mail, t.user.Name, step, n))
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

// holdDelayed holds an addressee that is delayed, and reports whether it was.
func holdDelayed(a *store.Addressee) bool {
	is := a.State == store.Delayed
	if is {
		a.State = store.Held
	}
	return is
}

// end writes what has changed. A user who was stopped is told, and waiting messages are held.
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
		if err := t.changeItems(t.mem.state.Waiting(), "held", holdDelayed); err != nil {
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
		t.due = t.now.Add(soon) // or it would be due again and again
	}
	return t.tx.Remember(store.Memory{Throttle: t.throttle, User: t.user.Name, State: state, Due: t.due,
		Stopped: t.mem.stopped()})
}

// note writes an entry of the audit log.
func (t *userTx) note(by, what, text string) error {
	return t.tx.Log(entry(t.now, by, what, t.user.Name, 0, text))
}

// settle does what is left to do after a transaction.
func (q *queue) settle(r result) {
	if r.stopped || r.resumed {
		q.refresh(&q.stopped, r.throttle, r.user)
	}
	if r.stopped {
		q.tell.Stopped(r.throttle)
		if r.untold {
			q.tell.Untold(r.throttle)
		}
		q.log.Warn("a user is stopped", "throttle", r.throttle, "user", r.user)
	}
	if r.resumed {
		q.tell.Resumed(r.throttle)
		q.log.Info("a user may send again", "throttle", r.throttle, "user", r.user)
	}
	q.expect(r.due)
	q.delivery.note(r.steps...)
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
		_ = q.delivery.handDue(ctx, now) // an error is logged, and it is tried again
	}
	return err
}

type mailItems struct {
	mail    store.MailID
	numbers map[int]bool
}

// byMail groups items by message, in order. Items of messages that weir does not keep are left out.
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
			addresses[normal(rows[i].Address)] = true
		}
	}
	for i := range rows {
		meant[i] = addresses[normal(rows[i].Address)]
	}
	return meant
}

// A memory is what is stored of a user of a mail throttle: its state, and the fields that the spool needs.
type memory struct {
	state     outbreak.State
	told      time.Time // when the user was last told of waiting messages; to the second
	shadow    bool      // messages were counted in shadow, and passed
	wouldStop bool      // the user was stopped in shadow, and is not
	suspended bool      // stopped because of being disabled, until enabled
}

// The layout: the version, flags, when the user was told (seconds, as a varint), and the state of the throttle.
const memoryVersion = 1

const (
	flagShadow = 1 << iota
	flagWouldStop
	flagSuspended
	flagsKnown = flagShadow | flagWouldStop | flagSuspended
)

func (m *memory) append(b []byte) ([]byte, error) {
	var flags byte
	for i, is := range [...]bool{m.shadow, m.wouldStop, m.suspended} {
		if is {
			flags |= 1 << i
		}
	}
	return m.state.AppendBinary(appendTold(append(b, memoryVersion, flags), m.told))
}

// appendTold writes when a user was told: seconds, or 0 for never.
func appendTold(b []byte, told time.Time) []byte {
	if told.IsZero() {
		return binary.AppendUvarint(b, 0)
	}
	return binary.AppendUvarint(b, uint64(max(told.Unix(), 0)))
}

func toldAt(seconds uint64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

func (m *memory) read(b []byte) error {
	if len(b) < 2 {
		return fmt.Errorf("what a mail throttle remembers: %d bytes: %w", len(b), store.ErrCorrupt)
	}
	if b[0] != memoryVersion {
		return fmt.Errorf("what a mail throttle remembers, version %d: %w", b[0], store.ErrNewer)
	}
	if b[1]&^flagsKnown != 0 {
		return fmt.Errorf("what a mail throttle remembers: unknown flags %#x: %w", b[1], store.ErrCorrupt)
	}
	told, n := binary.Uvarint(b[2:])
	if n <= 0 || told > maxTold {
		return fmt.Errorf("what a mail throttle remembers: no time: %w", store.ErrCorrupt)
	}
	next := memory{told: toldAt(told), shadow: b[1]&flagShadow != 0, wouldStop: b[1]&flagWouldStop != 0,
		suspended: b[1]&flagSuspended != 0}
	if err := next.state.UnmarshalBinary(b[2+n:]); err != nil {
		return fmt.Errorf("what a mail throttle remembers: %w: %w", err, store.ErrCorrupt)
	}
	*m = next
	return nil
}

// maxTold is in the year 2262.
const maxTold = 9_214_646_400

// stopped reports whether the user is stopped, and not only in shadow.
func (m *memory) stopped() bool {
	_, stopped := m.state.Stopped()
	return stopped && !m.wouldStop
}
