package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"time"

	"weir/internal/shown"
	"weir/mail/bounce"
	"weir/mail/nexthop"
	"weir/store"
)

// An ownMessage is one that weir writes itself. It has no sender, and a failure is not reported.
type ownMessage struct {
	message store.Message
	to      store.Addressee
	text    store.Text
	staged  store.Staged // nil if the text is in memory
}

func (e *env) own(now time.Time, gate, user, subject, to string) *ownMessage {
	id := e.NewID(now)
	return &ownMessage{
		message: store.Message{ID: id, Gate: gate, User: user, Subject: shown.Cut(subject, store.MaxSubject),
			Received: now, Own: true},
		to: store.Addressee{Mail: id, Address: to, Notify: "NEVER", State: store.Ready, Due: now, Since: now},
	}
}

// bounces writes the bounces to the sender of a message, or to another address (see bounceTo). A message without a
// sender is never answered (RFC 5321 section 6.1): it is held if no server could take it, and is in the audit log.
func (d *delivery) bounces(j *job, end *ending, now time.Time) (all []*ownMessage, err error) {
	type report struct {
		kind bounce.Kind
		to   []bounce.Recipient
	}
	reports := slices.DeleteFunc([]report{{bounce.Failure, end.failed}, {bounce.Delay, end.delayed},
		{bounce.Relayed, end.relayed}}, func(r report) bool { return len(r.to) == 0 })
	if len(reports) == 0 {
		return nil, nil
	}
	if j.message.Sender == "" {
		end.keep(&j.message, "it has no sender", now)
		if n := len(end.failed); n > 0 {
			first := &end.failed[0]
			end.entries = append(end.entries, entry(now, weirItself, "not told", j.message.User, j.message.ID,
				fmt.Sprintf("%d not delivered, %s among them: %s %s; nobody is told, as it has no sender",
					n, first.Address, first.Status, shown.Plain(first.Text, store.MaxStatus))))
		}
		return nil, nil
	}
	if j.tells == nil { // once, however often it has to be tried
		if j.tells, err = d.bounceTo(j.conf, &j.message, len(reports), len(end.narrow) > 0, now); err != nil {
			return nil, err
		}
	}
	if j.tells.mute {
		if end.keep(&j.message, j.message.Sender+" needs it too", now); len(end.failed) > 0 {
			j.tells.reason = j.message.Sender + " needs SMTPUTF8, which the next hop does not know"
		}
	}
	if j.tells.reason != "" {
		end.entries = append(end.entries,
			entry(now, weirItself, "not told", j.message.User, j.message.ID, j.tells.reason))
	}
	if j.tells.to == "" {
		return nil, nil
	}
	for _, r := range reports {
		text, err := d.store.Open(context.Background(), j.message.ID)
		if errors.Is(err, store.ErrNotFound) { // the message was removed in the meantime
			return all, nil
		}
		if err != nil {
			return all, err
		}
		o := d.own(now, j.message.Gate, j.message.User, "Delivery status of "+j.message.ID.String(), j.tells.to)
		o.staged = d.store.Stage()
		all = append(all, o)
		err = d.bounce(j, o, r.kind, r.to, text, now)
		text.Close()
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// bounce writes one of them. The text is returned only with a failure, if the sender wants it.
func (d *delivery) bounce(j *job, o *ownMessage, kind bounce.Kind, to []bounce.Recipient, text io.Reader,
	now time.Time) error {
	l, conf := &j.message, j.conf
	returned := l.Return
	// A server without 8BITMIME would not take the text in the bounce either.
	seven := func(r bounce.Recipient) bool { return r.Code == 0 && r.Status == nexthop.StatusEightBit }
	if kind != bounce.Failure || !j.tells.full || slices.ContainsFunc(to, seven) {
		returned = "HDRS"
	}
	err := bounce.Write(o.staged, &bounce.Report{Kind: kind, From: conf.Postmaster, Host: conf.Host, To: j.tells.to,
		ID: l.ID.String(), MessageID: o.message.ID.String() + "@" + conf.Host, Now: now, Arrived: l.Received,
		Until: j.to[0].Since.Add(conf.GiveUp), Envelope: l.Envelope, Return: returned, UTF8: l.UTF8, Recipients: to,
		Original: text, Size: l.Size})
	if err != nil {
		return err
	}
	o.message.UTF8 = !shown.ASCII(j.tells.to)
	o.message.EightBit = l.EightBit || o.message.UTF8
	o.staged.Note(&o.message, []store.Addressee{o.to})
	if o.text, err = o.staged.Seal(); err != nil {
		return err
	}
	o.message.Size, o.message.Filed = o.text.Size, o.text.File
	return nil
}

// Bounds of bounces to unknown senders: addresses in envelopes that are not known to be the user's.
const (
	maxUnknown      = 10     // bounces an hour for each user
	maxUnknownUsers = 10_000 // users with such bounces in an hour
	unknownEach     = time.Hour
)

// A bounceTarget is the address that gets the bounces of a message.
type bounceTarget struct {
	to     string // empty: no address
	full   bool   // the text may be returned
	reason string // why there is no address, for the audit log
	mute   bool   // the next server takes no address that could be told
}

// bounceTo decides who gets the bounces of a message. Users can write any sender into an envelope, and bounces are not
// counted. So bounces must not let users send anything to anybody, least of all when they are stopped:
//
//   - a client that is known by its address is trusted with its senders, and so is everybody if nothing is counted;
//   - an address that the user reaches uncounted gets the bounce: the user's own, and internal ones;
//   - instead of any other address, the user's registered contact gets it;
//   - without a contact such an address gets only the header, and no more than 10 times an hour.
//
// plain skips addresses that need SMTPUTF8, since the next server does not have it.
func (d *delivery) bounceTo(conf *Gate, l *store.Message, reports int, plain bool,
	now time.Time) (*bounceTarget, error) {
	taken := func(address string) bool { return !plain || shown.ASCII(address) }
	if byAddress(l.User) || conf.Mail == nil && !d.Stopped(conf.Name, l.User) {
		if !taken(l.Sender) {
			return &bounceTarget{mute: true}, nil
		}
		return &bounceTarget{to: l.Sender, full: true}, nil
	}
	user, err := d.Account(context.Background(), l.User)
	if err != nil {
		return nil, err
	}
	switch {
	case taken(l.Sender) && conf.free(&user, l.Sender, normal(l.Sender)):
		return &bounceTarget{to: l.Sender, full: true}, nil
	case user.Contact != "" && taken(user.Contact):
		return &bounceTarget{to: user.Contact, full: true}, nil
	case !taken(l.Sender):
		return &bounceTarget{mute: true}, nil
	}
	ok, first := d.unknown.take(l.User, reports, now)
	if ok {
		return &bounceTarget{to: l.Sender}, nil
	}
	d.tell.Bounded(BoundBounces)
	t := &bounceTarget{}
	if first { // one entry an hour
		t.reason = fmt.Sprintf("nothing shows that %s belongs to the user, and it was told %d times within an hour; until the "+
			"hour is over, such addresses are told nothing", l.Sender, maxUnknown)
	}
	return t, nil
}

// byAddress reports whether a user is a client that is known by its address, or by its network.
func byAddress(user string) bool {
	if _, err := netip.ParseAddr(user); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(user)
	return err == nil
}

// unknown counts bounces to unknown senders, in fixed hours. The zero value is ready to use.
type unknown struct {
	mu    sync.Mutex
	since time.Time
	told  map[string]int // by user; more than maxUnknown: it is in the audit log
}

// take reports whether n more bounces may be sent for a user, and if not, whether this is the first time in the hour.
func (c *unknown) take(user string, n int, now time.Time) (ok, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told == nil || now.Sub(c.since) >= unknownEach || now.Before(c.since) {
		c.since, c.told = now, map[string]int{}
	}
	told, known := c.told[user]
	switch {
	case !known && len(c.told) >= maxUnknownUsers:
		return false, false
	case told+n <= maxUnknown:
		c.told[user] = told + n
		return true, false
	}
	c.told[user] = maxUnknown + 1
	return false, told <= maxUnknown
}
