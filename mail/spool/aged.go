package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/store"
)

// Bounds of what happens to held messages by themselves, once an hour. What is left is done an hour later.
const (
	maxExpired   = 1000 // messages that are given up
	maxReminders = 1000 // users who are reminded
	agedPage     = 200  // messages that are read at once
)

// The longest time between two reminders, unless the first one is later.
const longestQuiet = 30 * 24 * time.Hour

// heldForGood reports whether an addressee waits for somebody to decide. Delayed ones leave by themselves.
func heldForGood(a *store.Addressee) bool { return a.State == store.Held || a.State == store.Withheld }

// expire is what happens to a recipient that nobody has released.
var expire = verb{"expired", heldForGood, true}

// ageHeld gives up what was held for too long, and then reminds users of what is still held.
func (d *desk) ageHeld(ctx context.Context, now time.Time) error {
	return errors.Join(d.expireHeld(ctx, now), d.remindAll(ctx, now))
}

// eachHeld calls do for the messages with held recipients that came no later than a time, the oldest first, until do
// returns false. A message with held and withheld recipients may come twice.
func (d *desk) eachHeld(ctx context.Context, until time.Time, do func(page []store.Queued) (bool, error)) error {
	for _, state := range []store.State{store.Held, store.Withheld} {
		for after, more := store.MailID(0), true; more; {
			page, err := d.queue.Queue(ctx, store.MessageQuery{State: state, After: after}, agedPage)
			if err != nil {
				return err
			}
			if more = len(page) == agedPage; len(page) > 0 {
				after = page[len(page)-1].ID
			}
			// Ids follow the time.
			old := slices.DeleteFunc(page, func(q store.Queued) bool { return q.Received.After(until) || q.Own })
			more = more && len(old) > 0
			if on, err := do(old); err != nil || !on {
				return err
			}
		}
	}
	return nil
}

// shortest returns the shortest positive time that gates have; 0: none has one.
func (d *desk) shortest(of func(*Gate) time.Duration) (least time.Duration) {
	for _, way := range d.gates.Load().list {
		if t := of(way.conf.Load()); t > 0 && (least == 0 || t < least) {
			least = t
		}
	}
	return least
}

// expireHeld gives up messages that were held for as long as their gate says: the sender is told as if they could not
// be delivered. A message whose sender cannot be told now is left for the next time.
func (d *desk) expireHeld(ctx context.Context, now time.Time) error {
	least := d.shortest(func(g *Gate) time.Duration { return g.HeldFor })
	if least == 0 {
		return nil
	}
	left := maxExpired
	return d.eachHeld(ctx, now.Add(-least), func(page []store.Queued) (bool, error) {
		for i := range page {
			conf := d.gates.Load().out(page[i].Gate)
			if conf.HeldFor <= 0 || now.Sub(page[i].Received) < conf.HeldFor {
				continue
			}
			if left == 0 {
				d.tell.Bounded(BoundExpired)
				return false, nil
			}
			expired, err := d.expireOne(ctx, now, conf, &page[i])
			if err != nil {
				return false, err
			}
			if expired {
				left--
			}
		}
		return true, nil
	})
}

// expireOne gives up the held recipients of a message, and reports whether it did.
func (d *desk) expireOne(ctx context.Context, now time.Time, conf *Gate, q *store.Queued) (bool, error) {
	j := &job{message: q.Message, conf: conf}
	if j.message.Return == "" {
		j.message.Return = "FULL" // this copy is the last one
	}
	end := &ending{}
	for i := range q.To {
		a := &q.To[i]
		if !heldForGood(a) {
			continue
		}
		j.to = append(j.to, *a)
		if wants(a.Notify, "FAILURE") {
			text := fmt.Sprintf("held for %s, and nobody released it", span(conf.HeldFor))
			if a.Status != "" {
				text += "; before: " + a.Status
			}
			failed := told(a, &nexthop.Result{Status: "4.4.7", Text: text}, now)
			failed.Last = time.Time{} // it may never have been tried
			end.failed = append(end.failed, failed)
		}
	}
	if len(j.to) == 0 {
		return false, nil
	}
	own, err := d.delivery.bounces(j, end, now)
	defer func() { discard(own) }()
	if err != nil {
		return false, err
	}
	if len(end.failed) > 0 && len(own) == 0 && q.Sender != "" {
		return false, nil // too many were told lately, or the message is gone
	}
	var n int
	var results []result
	err = d.update(ctx, func(tx store.MailTx) (err error) {
		n, results = 0, nil
		there, err := tx.Addressees(q.ID)
		if err != nil {
			return err
		}
		there = slices.DeleteFunc(there, func(a store.Addressee) bool { return !heldForGood(&a) })
		if !slices.EqualFunc(there, j.to, func(a, b store.Addressee) bool { return a.Number == b.Number }) {
			return nil // somebody decided meanwhile: what is told would be wrong
		}
		if n, results, err = d.actIn(tx, now, weirItself, q.User, Selection{Mails: []store.MailID{q.ID}},
			expire); err != nil {
			return err
		}
		return end.store(tx, own)
	})
	if err != nil || n == 0 {
		return false, err
	}
	d.tell.Expired(q.Gate, n)
	d.log.Info("a message was held for too long and is given up", "mail", q.ID, "user", q.User, "recipients", n)
	if len(own) > 0 {
		d.tell.Bounced(q.Gate)
	}
	if d.queue.settleAll(results) || len(own) > 0 {
		_ = d.delivery.handDue(ctx, now) // an error is logged, and it is tried again
	}
	return true, nil
}

// remindAll reminds users of what is held, and the admin of what users without a contact have.
func (d *desk) remindAll(ctx context.Context, now time.Time) error {
	least := d.shortest(func(g *Gate) time.Duration { return g.RemindAfter })
	if least == 0 {
		return nil
	}
	left := maxReminders
	return d.eachHeld(ctx, now.Add(-least), func(page []store.Queued) (bool, error) {
		users := map[string]*Gate{}
		for i := range page {
			if conf := d.gates.Load().out(page[i].Gate); conf.RemindAfter > 0 && users[page[i].User] == nil &&
				now.Sub(page[i].Received) >= conf.RemindAfter {
				users[page[i].User] = conf
			}
		}
		due, err := read(ctx, d.env, func(tx store.MailTx) (due []string, err error) {
			for user, conf := range users {
				r, err := d.reminderOf(tx, now, conf, user)
				if err != nil {
					return nil, err
				}
				if r != nil {
					due = append(due, user)
				}
			}
			return due, nil
		})
		if err != nil {
			return false, err
		}
		for _, user := range due {
			if left == 0 {
				d.tell.Bounded(BoundReminders)
				return false, nil
			}
			left--
			if err := d.remind(ctx, now, users[user], user); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// A reminder is one that is due.
type reminder struct {
	user store.User
	held []store.Queued
	mark store.Ticket // what is stored with it
}

// reminderOf returns the reminder that is due to a user, or nil.
//
// When a user was reminded is kept in a ticket that nobody has, so that it is committed with the notice: a restart
// neither reminds twice nor forgets. Its messages are how often (from 1), the oldest message then, and the time in
// seconds. The time between two reminders doubles as long as the oldest message stays the same.
func (d *desk) reminderOf(tx store.MailTx, now time.Time, g *Gate, name string) (*reminder, error) {
	r := &reminder{}
	var err error
	if r.user, err = d.userOf(tx, name); err != nil {
		return nil, err
	}
	if r.user.Disabled || r.user.Contact == "" && g.Admin == "" {
		return nil, nil
	}
	if r.held, err = heldMail(tx, name, r.user.Made, store.MaxTicketMessages); err != nil {
		return nil, err
	}
	r.held = slices.DeleteFunc(r.held, func(q store.Queued) bool {
		return !slices.ContainsFunc(q.To, func(a store.Addressee) bool { return heldForGood(&a) })
	})
	if len(r.held) == 0 || now.Sub(r.held[0].Received) < g.RemindAfter {
		return nil, nil
	}
	var last []store.MailID
	if r.mark, last, err = markOf(tx, "reminded", name); err != nil {
		return nil, err
	}
	times, oldest := store.MailID(1), r.held[0].ID
	if len(last) == 3 {
		quiet := g.RemindAfter
		if last[1] == oldest {
			times = last[0] + 1
			for i := store.MailID(1); i < last[0] && quiet < longestQuiet; i++ {
				quiet *= 2
			}
			quiet = max(min(quiet, longestQuiet), g.RemindAfter)
		}
		// A clock that was set back must not silence it.
		if now.Sub(time.Unix(int64(last[2]), 0)).Abs() < quiet {
			return nil, nil
		}
	}
	r.mark.Until = now.Add(2 * max(longestQuiet, g.RemindAfter))
	r.mark.Messages = []store.MailID{times, oldest, store.MailID(max(now.Unix(), 1))}
	return r, nil
}

// markOf returns a ticket that nobody has, for notes about a user, and the numbers that were noted in it last.
func markOf(tx store.MailTx, about, user string) (mark store.Ticket, last []store.MailID, err error) {
	sum := sha256.Sum256([]byte(user))
	mark = store.Ticket{Nonce: about + "." + hex.EncodeToString(sum[:]), User: user, Used: true}
	known, err := tx.Ticket(mark.Nonce)
	if isNotFound(err) {
		err = nil
	}
	return mark, known.Messages, err
}

// remind writes a reminder, if it is still due.
func (d *desk) remind(ctx context.Context, now time.Time, g *Gate, name string) error {
	reminded := false
	err := d.update(ctx, func(tx store.MailTx) error {
		reminded = false
		r, err := d.reminderOf(tx, now, g, name)
		if err != nil || r == nil {
			return err
		}
		m := notification{kind: notice.Reminder, adminKind: notice.AdminReminder, user: true,
			Notice: notice.Notice{Since: r.held[0].Received}}
		if r.user.Contact == "" {
			m.admin = g.Admin
		}
		if reminded, err = d.notify(tx, now, g, &r.user, m); err != nil || !reminded {
			return err
		}
		if err := tx.PutTicket(r.mark); err != nil {
			return err
		}
		n := waitingOf(r.held)
		return tx.Log(entry(now, weirItself, "reminded", name, 0, fmt.Sprintf("%s, the oldest of %s",
			recipientsText(n.All()), r.held[0].Received.UTC().Format(time.DateTime))))
	})
	if err == nil && reminded {
		d.tell.Reminded(g.Name)
		_ = d.delivery.handDue(ctx, now) // an error is logged, and it is tried again
	}
	return err
}
