package spool

import (
	"context"
	"time"

	"weir/mail/notice"
	"weir/store"
)

const (
	sessionFor = 30 * time.Minute // a session on the page
	linkEvery  = 10 * time.Minute // a link by mail
)

// sessionMark stands for the messages in the ticket of a session, which is about none. No message has this id.
const sessionMark store.MailID = 1

// overtaken reports whether a ticket is of a session that began before its user was changed: the password may be
// another one now.
func overtaken(t *store.Ticket, user *store.User) bool {
	return len(t.Messages) == 1 && t.Messages[0] == sessionMark && user.Changed.After(t.Until.Add(-sessionFor))
}

// LogIn begins a session of a user whose password is right, and returns its ticket: for looking, or, with act, for all
// that a link in a notice is good for. It returns store.ErrNotFound for users that the store does not have.
func (d *desk) LogIn(ctx context.Context, now time.Time, user string, act bool) (ticket string, err error) {
	purpose := notice.ForLook
	if act {
		purpose = notice.ForPage
	}
	t := store.Ticket{Nonce: notice.NewNonce(), User: user, Until: now.Add(sessionFor), Used: true,
		Messages: []store.MailID{sessionMark}}
	if all := d.gates.Load().throttles(); len(all) > 0 {
		t.Throttle, t.Gate = all[0].Throttle, all[0].Name
	}
	err = d.update(ctx, func(tx store.MailTx) error {
		if _, err := tx.User(user); err != nil {
			return err
		}
		if err := tx.PutTicket(t); err != nil {
			return err
		}
		return tx.Log(entry(now, user+", on the page", "logged in", user, 0, "with the password"))
	})
	if err != nil {
		return "", err
	}
	return d.opts.Signer.Sign(purpose, t.Nonce, t.Until), nil
}

// LogOut ends a session that is for looking.
func (d *desk) LogOut(ctx context.Context, now time.Time, ticket string) error {
	nonce, err := d.opts.Signer.Read(notice.ForLook, ticket, now)
	if err != nil {
		return err
	}
	return d.update(ctx, func(tx store.MailTx) error {
		t, _, err := d.goodTicket(tx, nonce, now)
		if err != nil {
			return err
		}
		t.Until = now.Add(-time.Second)
		return tx.PutTicket(t)
	})
}

// Look returns what a user sees who has logged in for looking, or notice.ErrForged or notice.ErrOld.
func (d *desk) Look(ctx context.Context, now time.Time, ticket string) (PageView, error) {
	return d.pageFor(ctx, now, notice.ForLook, ticket)
}

// SendLink sends the contact of a user who has logged in a link to act with, and reports whether there is one. The
// next one is sent ten minutes later. When the last one was sent is kept in a ticket that nobody has.
func (d *desk) SendLink(ctx context.Context, now time.Time, ticket string) (sent bool, err error) {
	nonce, err := d.opts.Signer.Read(notice.ForLook, ticket, now)
	if err != nil {
		return false, err
	}
	err = d.queue.apply(ctx, now, func(tx store.MailTx) ([]result, error) {
		sent = false
		t, user, err := d.goodTicket(tx, nonce, now)
		if err != nil || user.Contact == "" {
			return nil, err
		}
		g := d.gates.Load().of(t.Gate)
		if g == nil {
			g = d.gates.Load().out(t.Gate)
		}
		mark, last, err := markOf(tx, "link", user.Name)
		if err != nil {
			return nil, err
		}
		mark.Until, mark.Messages = now.Add(linkEvery), []store.MailID{store.MailID(max(now.Unix(), 1))}
		sent = true
		if len(last) == 1 && now.Sub(time.Unix(int64(last[0]), 0)).Abs() < linkEvery {
			return nil, nil // it is on its way
		}
		if err := tx.PutTicket(mark); err != nil {
			return nil, err
		}
		if _, err := d.notify(tx, now, g, &user, notification{kind: notice.Link, user: true}); err != nil {
			return nil, err
		}
		return []result{{ready: true}}, tx.Log(entry(now, user.Name+", on the page", "link sent", user.Name, 0,
			"to the contact"))
	})
	return sent && err == nil, err
}
