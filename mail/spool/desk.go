package spool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
)

// A desk does what users and operators ask for.
type desk struct {
	*env
	delivery *delivery
	reach    *reaches
	queue    *queue
}

// maxAct is how many messages one transaction may change.
const maxAct = 5000

// A Selection says which held messages an action is about.
type Selection struct {
	All   bool
	UpTo  store.MailID // All: up to this message; 0: all there are
	Mails []store.MailID
	since time.Time // only messages that came no earlier
}

// Release releases held and delayed messages of a user, and returns how many recipients. A stopped user stays stopped.
func (d *desk) Release(ctx context.Context, now time.Time, by, user string, which Selection) (int, error) {
	return d.act(ctx, now, by, user, which, release)
}

// Delete removes held and delayed messages of a user, and returns how many recipients. Senders are not told.
func (d *desk) Delete(ctx context.Context, now time.Time, by, user string, which Selection) (int, error) {
	return d.act(ctx, now, by, user, which, remove)
}

// A verb is what is done with a recipient that waits.
type verb struct {
	name string
	of   func(a *store.Addressee) bool // which addressees it can be done to
	gone bool                          // the addressee is removed; else it gets ready
}

var (
	release = verb{"released", Waits, false}
	remove  = verb{"deleted", Waits, true}
	// Operators may do more.
	releaseAny = verb{"released", func(a *store.Addressee) bool { return Waits(a) || a.State == store.Pooled }, false}
	removeAny  = verb{"deleted", func(a *store.Addressee) bool { return a.State != store.Sending }, true}
)

func (d *desk) act(ctx context.Context, now time.Time, by, user string, which Selection, v verb) (n int, err error) {
	for {
		var k int
		var results []result
		err = d.update(ctx, func(tx store.MailTx) (err error) {
			k, results, err = d.actIn(tx, now, by, user, which, v)
			return err
		})
		if err != nil {
			return n, err
		}
		d.acted(ctx, now, v, k, results)
		if n += k; !which.All || k < maxAct { // each mail has a recipient: there are no more
			return n, nil
		}
	}
}

func (d *desk) acted(ctx context.Context, now time.Time, v verb, n int, results []result) {
	ready := d.queue.settleAll(results) || n > 0 && !v.gone
	if n > 0 && v.gone {
		d.tell.Deleted(n)
	} else if n > 0 {
		d.tell.Released(n)
	}
	if ready {
		_ = d.delivery.handDue(ctx, now) // an error is logged, and it is tried again
	}
}

func (d *desk) actIn(tx store.MailTx, now time.Time, by, user string, which Selection,
	v verb) (n int, results []result, err error) {
	chosen, err := choice(tx, user, which)
	if err != nil {
		return 0, nil, err
	}
	txs, err := d.userTxs(tx, now, user)
	if err != nil {
		return 0, nil, err
	}
	acted, steps := map[recipient]bool{}, []MailStep(nil)
	withheld := map[string]*freed{} // by gate
	for i := range chosen {
		numbers, err := d.actOn(tx, now, by, &chosen[i], v, withheld)
		if err != nil {
			return 0, nil, err
		}
		n += len(numbers)
		if len(numbers) > 0 {
			steps = append(steps, decided(now, chosen[i].ID, user, v.name, len(numbers)))
		}
		for _, number := range numbers {
			acted[recipient{chosen[i].ID, number}] = true
		}
	}
	if err := d.reach.settleWithheld(tx, now, user, withheld); err != nil {
		return 0, nil, err
	}
	for _, t := range txs {
		t.mem.state.Take(func(it outbreak.Item) bool { return acted[recipient{store.MailID(it.Mail), it.Number}] })
		if err := t.end(news{}); err != nil {
			return 0, nil, err
		}
		results = append(results, t.result)
	}
	return n, append(results, result{steps: steps}), nil
}

// A recipient is one of a message.
type recipient struct {
	mail   store.MailID
	number int
}

// choice returns the selected messages of a user.
func choice(tx store.MailTx, user string, which Selection) (list []store.Message, err error) {
	if !which.All {
		list, err = messages(tx, which.Mails)
		return slices.DeleteFunc(list, func(l store.Message) bool {
			return l.User != user || l.Received.Before(which.since)
		}), err
	}
	if user == "" {
		return nil, fmt.Errorf("all mail of nobody: %w", store.ErrInvalid)
	}
	all, err := heldMail(tx, user, which.since, maxAct)
	for i := range all {
		if which.UpTo == 0 || all[i].ID <= which.UpTo {
			list = append(list, all[i].Message)
		}
	}
	return list, err
}

// messages returns those with the ids that exist.
func messages(tx store.MailTx, ids []store.MailID) (list []store.Message, err error) {
	if len(ids) > maxAct {
		return nil, fmt.Errorf("%d messages at once, at most %d: %w", len(ids), maxAct, store.ErrTooLarge)
	}
	for _, id := range ids {
		if l, err := tx.Message(id); err == nil {
			list = append(list, l)
		} else if !isNotFound(err) {
			return nil, err
		}
	}
	return list, nil
}

// userTxs begins a userTx for each throttle that remembers the user, and may hold messages back.
func (d *desk) userTxs(tx store.MailTx, now time.Time, user string) (list []*userTx, err error) {
	if user == "" {
		return nil, nil
	}
	memories, err := tx.Memories(user, maxMemories)
	if err != nil {
		return nil, err
	}
	all := d.gates.Load()
	for i := range memories {
		var t *userTx
		if g := all.throttle(memories[i].Throttle); g != nil {
			t, err = d.queue.openUser(tx, now, g, user)
		} else {
			t, err = d.queue.openLost(tx, now, &memories[i])
		}
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// actOn does something to one message, and notes what is not withheld any more.
func (d *desk) actOn(tx store.MailTx, now time.Time, by string, l *store.Message, v verb,
	withheld map[string]*freed) (numbers []int, err error) {
	rows, err := tx.Addressees(l.ID)
	if err != nil {
		return nil, err
	}
	part := slices.ContainsFunc(rows, func(a store.Addressee) bool { return a.State == store.Withheld && !v.of(&a) })
	for i := range rows {
		a := &rows[i]
		if !v.of(a) {
			continue
		}
		numbers = append(numbers, a.Number)
		if a.State == store.Withheld {
			noteFreed(withheld, l, a, v, part)
		}
		if v.gone {
			continue
		}
		a.Due = now
		makeReady(a, now)
		if err := tx.PutAddressees(*a); err != nil {
			return nil, err
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	if v.gone {
		if err := tx.RemoveAddressees(l.ID, numbers...); err != nil {
			return nil, err
		}
	}
	return numbers, tx.Log(entry(now, by, v.name, l.User, l.ID, recipientsText(len(numbers))))
}

// noteFreed notes that a recipient is not withheld any more. The bytes of a message are freed with its last recipient;
// part means that others stay.
func noteFreed(withheld map[string]*freed, l *store.Message, a *store.Addressee, v verb, part bool) {
	f := withheld[l.Gate]
	if f == nil {
		f = &freed{}
		withheld[l.Gate] = f
	}
	if f.mail != l.ID && !part {
		f.mail = l.ID
		f.bytes += l.Size
	}
	f.recipients++
	if !v.gone {
		f.known = append(f.known, a.Address)
	}
}

// ReleaseMails releases messages of any user, and returns how many recipients. Unknown ids are ignored.
func (d *desk) ReleaseMails(ctx context.Context, now time.Time, by string, ids []store.MailID) (n int, err error) {
	_, n, err = d.actOnMany(ctx, now, by, ids, releaseAny)
	return n, err
}

// DeleteMails removes messages of any user that are not being sent, and returns how many recipients. Senders are not
// told.
func (d *desk) DeleteMails(ctx context.Context, now time.Time, by string, ids []store.MailID) (n int, err error) {
	_, n, err = d.actOnMany(ctx, now, by, ids, removeAny)
	return n, err
}

// actOnMany does something to messages of any user, and returns how many messages and recipients it was done to.
func (d *desk) actOnMany(ctx context.Context, now time.Time, by string, ids []store.MailID, v verb) (mails, n int,
	err error,
) {
	var results []result
	err = d.update(ctx, func(tx store.MailTx) error {
		mails, n, results = 0, 0, nil
		all, err := messages(tx, ids)
		if err != nil {
			return err
		}
		byUser := map[string][]store.MailID{}
		for _, l := range all {
			to, err := tx.Addressees(l.ID)
			if err != nil {
				return err
			}
			if countOf(to, v.of) > 0 { // or it was done meanwhile
				mails++
				byUser[l.User] = append(byUser[l.User], l.ID)
			}
		}
		for _, user := range slices.Sorted(maps.Keys(byUser)) {
			k, r, err := d.actIn(tx, now, by, user, Selection{Mails: byUser[user]}, v)
			if err != nil {
				return err
			}
			n += k
			results = append(results, r...)
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	d.acted(ctx, now, v, n, results)
	return mails, n, nil
}

// RetryMails tries messages now, or without ids all up to a bound, and returns how many recipients.
func (d *desk) RetryMails(ctx context.Context, now time.Time, ids []store.MailID) (n int, err error) {
	if len(ids) == 0 {
		all, err := d.queue.Queue(ctx, store.MessageQuery{State: store.Ready}, maxAct)
		if err != nil {
			return 0, err
		}
		for i := range all {
			ids = append(ids, all[i].ID)
		}
	}
	_, n, err = d.retry(ctx, now, ids, waitsForTry(now))
	return n, err
}

// retry tries recipients of messages now, and returns how many messages and recipients.
func (d *desk) retry(ctx context.Context, now time.Time, ids []store.MailID, of func(*store.Addressee) bool) (mails,
	n int, err error,
) {
	err = d.update(ctx, func(tx store.MailTx) error {
		mails, n = 0, 0
		for _, id := range ids {
			rows, err := tx.Addressees(id)
			if err != nil {
				return err
			}
			k, err := changeRows(tx, rows, func(_ int, a *store.Addressee) bool {
				later := of(a)
				if later {
					a.Due = now
				}
				return later
			})
			if err != nil {
				return err
			}
			if n += k; k > 0 {
				mails++
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return mails, n, d.delivery.handDue(ctx, now)
}
