package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/mail/notice"
	"weir/store"
)

// maxPage is how many messages a page shows.
const maxPage = 500

// A PageView is what the holder of a link sees.
type PageView struct {
	User       string
	Stopped    bool
	Since      time.Time
	ByOperator bool      // the user cannot resume
	Waiting    int       // recipients
	Limit      int       // how many may wait
	Resume     time.Time // when the user is tried again
	Held       []store.Queued
	More       bool         // there is more than is shown
	Last       store.MailID // the latest that is shown: All on this page goes up to it
	Until      time.Time    // until when the link is good
}

// Page returns what a user sees behind the link of a notice, or notice.ErrForged or notice.ErrOld.
func (d *desk) Page(ctx context.Context, now time.Time, ticket string) (PageView, error) {
	nonce, err := d.opts.Signer.Read(notice.ForPage, ticket, now)
	if err != nil {
		return PageView{}, err
	}
	return read(ctx, d.env, func(tx store.MailTx) (v PageView, err error) {
		t, user, err := goodTicket(tx, nonce, now)
		if err != nil {
			return v, err
		}
		held, err := heldMail(tx, t.User, user.Made, maxPage+1)
		if err != nil {
			return v, err
		}
		v = PageView{User: t.User, Until: t.Until, More: len(held) > maxPage}
		held = held[:min(len(held), maxPage)]
		v.Held, v.Waiting = held, waiting(held)
		if len(held) > 0 {
			v.Last = held[len(held)-1].ID
		}
		g := d.gates.Load().throttle(t.Throttle)
		if g == nil {
			return v, nil
		}
		stand, err := d.queue.peekUser(tx, now, g, t.User)
		if err != nil {
			return PageView{}, err
		}
		if stand.mem.stopped() {
			v.Since, v.Stopped = stand.mem.state.Stopped()
			v.ByOperator = stand.mem.state.ByOperator()
			v.Resume = stand.mem.state.Due(&stand.params)
		}
		v.Limit = stand.params.Stop
		return v, nil
	})
}

// goodTicket returns a ticket that is still good, and its user. A command by mail does not end it for the page.
func goodTicket(tx store.MailTx, nonce string, now time.Time) (t store.Ticket, user store.User, err error) {
	if t, err = tx.Ticket(nonce); err == nil {
		user, err = tx.User(t.User)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && now.After(t.Until) {
		err = notice.ErrOld
	}
	return t, user, err
}

const maxForm = 64

// Act does what a user wants on the page behind a ticket, only with the user's own messages. form names the form, which
// is good once: the second time it returns ErrSpent. The page has to make sure that the form is its own.
func (d *desk) Act(ctx context.Context, now time.Time, ticket, form string, a Action) (done Done, err error) {
	nonce, err := d.opts.Signer.Read(notice.ForPage, ticket, now)
	if err != nil {
		return Done{}, err
	}
	if form == "" || len(form) > maxForm {
		return Done{}, notice.ErrForged
	}
	if a.contradicts() {
		return Done{}, fmt.Errorf("%w: it contradicts itself", notice.ErrNothing)
	}
	var results []result
	err = d.update(ctx, func(tx store.MailTx) error {
		done, results = Done{}, nil
		t, user, err := goodTicket(tx, nonce, now)
		if err != nil {
			return err
		}
		sent := store.Ticket{Nonce: "form." + nonce + "." + form, User: t.User, Until: t.Until, Used: true}
		switch _, err := tx.Ticket(sent.Nonce); {
		case err == nil:
			return ErrSpent
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		if err := tx.PutTicket(sent); err != nil {
			return err
		}
		done, results, err = d.actFor(tx, now, t.User+", on the page", &t, user.Made, &a)
		return err
	})
	if err != nil {
		return Done{}, err
	}
	d.afterAction(ctx, now, done, results)
	return done, nil
}
